"""Signatures of plans: DSSE envelopes, trust bundles and the verifier.

The counterpart of proto/envelope, held equal to it by tests over the same envelopes.
"""

from parplan.envelope.envelope import Signature, SignedPlan
from parplan.envelope.trust_bundle import BundleVersion, TrustBundle, TrustedKey, accept
from parplan.envelope.verifier import Audience, VerifiedPlan, verify

__all__ = ["Audience", "BundleVersion", "Signature", "SignedPlan", "TrustBundle", "TrustedKey",
           "VerifiedPlan", "accept", "verify"]
