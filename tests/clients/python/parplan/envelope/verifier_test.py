"""The verifier refuses what the C++ verifier refuses, for the same reasons.

The first tests repeat the cases of tests/proto/envelope/verifier_test.cc; the last ones give the
same bytes to both verifiers.
"""

import dataclasses
import json
import random

import pytest
import signed_plans as plans
from signed_plans import FIRST, ISSUE_TIME, SECOND

import parplan
from parplan.envelope import Audience, Signature, TrustBundle, TrustedKey, verify
from parplan.wire import messages

SECOND_OF = 1_000_000_000
NOW = ISSUE_TIME * SECOND_OF
AUDIENCE = Audience("atlas", "job-7", "node-b", "a" * 64)


def make_payload(**changes):
    payload = messages.PlanPayload(plan="clusters/atlas/plans/p1", cluster="atlas", job_id="job-7",
                                   node_names=["node-a", "node-b"], topology_digest="a" * 64,
                                   device_count=2, global_batch_size=8, micro_batch_count=4)
    payload.issue_time.seconds = ISSUE_TIME
    payload.expire_time.seconds = ISSUE_TIME + plans.DAY
    payload.stages.add(rank_count=2)
    for name, value in changes.items():
        setattr(payload, name, value)
    return payload


def sign(payload, *keys):
    return plans.sign(payload.SerializeToString(), *(keys or (FIRST,)))


def refusal(plan, audience=AUDIENCE, now=NOW, trust=None):
    """Returns the reason why a plan is refused, or None."""
    bundle = TrustBundle.from_json(trust or plans.trust(FIRST))
    try:
        verify(plan, bundle, audience, now)
    except parplan.Error as error:
        return error.reason
    return None


def flipped(data, bit):
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_a_good_plan_is_accepted_with_its_bytes_and_key():
    plan = sign(make_payload())
    verified = verify(plan, TrustBundle.from_json(plans.trust(FIRST)), AUDIENCE, NOW)
    assert verified.payload_bytes == plan.payload
    assert verified.payload.plan == "clusters/atlas/plans/p1"
    assert verified.key_id == FIRST.key_id


def test_no_bit_of_payload_type_or_signature_can_change():
    plan = sign(make_payload())
    for bit in range(len(plan.payload) * 8):
        changed = dataclasses.replace(plan, payload=flipped(plan.payload, bit))
        assert refusal(changed) == "SIGNATURE_INVALID"
    kind = plan.payload_type.encode()
    for bit in range(len(kind) * 8):
        if bit % 8 == 7:
            continue  # No text any more; the test over JSON has it.
        changed = dataclasses.replace(plan, payload_type=flipped(kind, bit).decode())
        assert refusal(changed) == "SIGNATURE_INVALID"
    signature = plan.signatures[0]
    for bit in range(64 * 8):
        changed = dataclasses.replace(
            plan, signatures=(Signature(flipped(signature.sig, bit), signature.key_id),))
        assert refusal(changed) == "SIGNATURE_INVALID"


def test_bytes_cut_off_or_added_are_refused():
    plan = sign(make_payload())
    for payload in (plan.payload[:-1], plan.payload + b"\0"):
        assert refusal(dataclasses.replace(plan, payload=payload)) == "SIGNATURE_INVALID"


def test_another_key_or_none_is_refused():
    assert refusal(sign(make_payload(), SECOND)) == "SIGNATURE_INVALID"
    plan = sign(make_payload())
    assert refusal(dataclasses.replace(plan, signatures=())) == "SIGNATURE_INVALID"
    with pytest.raises(parplan.Error) as raised:
        verify(plan, TrustBundle(), AUDIENCE, NOW)
    assert raised.value.reason == "SIGNATURE_INVALID"


def test_one_trusted_signature_among_several_is_enough():
    for keys in ((FIRST, SECOND), (SECOND, FIRST)):
        verified = verify(sign(make_payload(), *keys), TrustBundle.from_json(plans.trust(FIRST)),
                          AUDIENCE, NOW)
        assert verified.key_id == FIRST.key_id


def test_a_key_id_is_a_hint_and_never_trusted():
    forged = sign(make_payload(), SECOND)
    forged = dataclasses.replace(
        forged, signatures=(Signature(forged.signatures[0].sig, FIRST.key_id),))
    assert refusal(forged) == "SIGNATURE_INVALID"
    both = TrustBundle.from_json(plans.trust(FIRST, SECOND))
    plan = sign(make_payload())
    for hint in (SECOND.key_id, "", "?"):
        hinted = dataclasses.replace(plan, signatures=(Signature(plan.signatures[0].sig, hint),))
        assert verify(hinted, both, AUDIENCE, NOW).key_id == FIRST.key_id


def test_more_than_16_signatures_are_not_looked_at():
    plan = sign(make_payload())
    many = plan.signatures + (Signature(b"x" * 64),) * 15
    assert refusal(dataclasses.replace(plan, signatures=many)) is None
    assert refusal(dataclasses.replace(plan, signatures=many + (Signature(b""),))) == (
        "SIGNATURE_INVALID")


def test_another_signed_type_or_no_plan_is_malformed():
    other = plans.sign(make_payload().SerializeToString(), FIRST,
                       payload_type="application/octet-stream")
    assert refusal(other) == "PAYLOAD_MALFORMED"
    assert refusal(plans.sign(b"\xff\xff\xff", FIRST)) == "PAYLOAD_MALFORMED"
    assert refusal(plans.sign(b"", FIRST)) == "PAYLOAD_MALFORMED"


def spoiled(field):
    payload = make_payload()
    if field == "nanos":
        payload.issue_time.nanos = -1
    elif field == "late":
        payload.expire_time.seconds = 2**63 - 1
    elif field == "early":
        payload.issue_time.seconds = -2**63
    elif field == "empty":
        payload.expire_time.CopyFrom(payload.issue_time)
    elif field == "devices":
        payload.device_count = -1
    else:
        payload.ClearField(field)
    return payload


@pytest.mark.parametrize("field, named", [
    ("plan", "plan"), ("device_count", "device_count"), ("devices", "device_count"),
    ("micro_batch_count", "micro_batch_count"), ("stages", "stages"),
    ("issue_time", "issue_time"), ("nanos", "issue_time"), ("early", "issue_time"),
    ("expire_time", "expire_time"), ("late", "expire_time"), ("empty", "expire_time")])
def test_a_plan_without_its_essentials_is_malformed_and_says_which(field, named):
    with pytest.raises(parplan.errors.PayloadMalformed, match=named) as raised:
        verify(sign(spoiled(field)), TrustBundle.from_json(plans.trust(FIRST)), AUDIENCE, NOW)
    assert raised.value.metadata["keyId"] == FIRST.key_id


def test_fields_of_a_later_release_are_accepted():
    # Field 2000, a varint.
    later = plans.sign(make_payload().SerializeToString() + b"\x80\x7d\x01", FIRST)
    assert refusal(later) is None


def test_holds_from_issue_less_tolerance_until_before_expiry():
    plan = sign(make_payload())
    earliest, end = NOW - 60 * SECOND_OF, NOW + plans.DAY * SECOND_OF
    assert refusal(plan, now=earliest - 1) == "PLAN_EXPIRED"
    assert refusal(plan, now=earliest) is None
    assert refusal(plan, now=end - 1) is None
    assert refusal(plan, now=end) == "PLAN_EXPIRED"
    with pytest.raises(parplan.Error, match="2026-03-02T12:00:00Z; ask"):
        verify(plan, TrustBundle.from_json(plans.trust(FIRST)), AUDIENCE, end)


def test_the_window_of_the_key_must_cover_the_issue_time():
    plan = sign(make_payload())

    def refusal_with(not_before, not_after):
        bundle = TrustBundle.of([TrustedKey(FIRST.raw, not_before, not_after, is_retired=True)])
        try:
            verify(plan, bundle, AUDIENCE, NOW)
        except parplan.Error as error:
            return error.reason
        return None

    hour = 3600 * SECOND_OF
    assert refusal_with(NOW, NOW + hour) is None
    assert refusal_with(NOW + 1, NOW + hour) == "PLAN_EXPIRED"
    assert refusal_with(NOW - hour, NOW + 1) is None
    assert refusal_with(NOW - hour, NOW) == "PLAN_EXPIRED"


def test_a_second_key_in_its_window_makes_up_for_a_first_that_is_not():
    hour = 3600 * SECOND_OF
    bundle = TrustBundle.of([TrustedKey(FIRST.raw, NOW - 2 * hour, NOW - hour),
                             TrustedKey(SECOND.raw, NOW, NOW + hour)])
    verified = verify(sign(make_payload(), FIRST, SECOND), bundle, AUDIENCE, NOW)
    assert verified.key_id == SECOND.key_id


def test_another_cluster_job_node_or_topology_is_refused():
    plan = sign(make_payload())
    for change, reason in (({"cluster": "other"}, "AUDIENCE_MISMATCH"),
                           ({"job_id": "job-8"}, "AUDIENCE_MISMATCH"),
                           ({"node_name": "node-c"}, "AUDIENCE_MISMATCH"),
                           ({"topology_digest": "b" * 64}, "TOPOLOGY_MISMATCH")):
        assert refusal(plan, dataclasses.replace(AUDIENCE, **change)) == reason
    assert refusal(plan, Audience()) is None, "an empty field is not checked"


def test_the_first_check_that_fails_gives_the_reason():
    wrong = Audience("other", "", "", "b" * 64)
    late = NOW + 2 * plans.DAY * SECOND_OF
    empty = make_payload()
    empty.ClearField("stages")
    steps = [(sign(empty, SECOND), wrong, late), (sign(empty), wrong, late),
             (sign(make_payload()), wrong, late), (sign(make_payload()), wrong, NOW),
             (sign(make_payload()), dataclasses.replace(wrong, cluster="atlas"), NOW),
             (sign(make_payload()), AUDIENCE, NOW)]
    assert [refusal(*step) for step in steps] == [
        "SIGNATURE_INVALID", "PAYLOAD_MALFORMED", "PLAN_EXPIRED", "AUDIENCE_MISMATCH",
        "TOPOLOGY_MISMATCH", None]


def test_unsigned_text_cannot_forge_the_facts_of_a_refusal():
    plan = sign(make_payload(), SECOND)
    plan = dataclasses.replace(plan, signatures=(Signature(plan.signatures[0].sig, "x\0k\0f"),))
    with pytest.raises(parplan.errors.SignatureInvalid) as raised:
        verify(plan, TrustBundle.from_json(plans.trust(FIRST)), AUDIENCE, NOW)
    assert raised.value.metadata == {"keyIds": "x?k?f"}


class Both:
    """The same files given to this package and to the C interface."""

    def __init__(self, library):
        self._executor, self._library = library
        model, topology, self.payload = plans.random_plan(1, ISSUE_TIME)
        self.files = [plans.json_text(one) for one in (model, topology)]
        self.trust = plans.trust(FIRST)

    def outcomes(self, envelope, trust=None, time=ISSUE_TIME, **audience):
        """Returns (code, reason) of each, or None where the plan is accepted."""
        trust = trust or self.trust
        ours = theirs = None
        try:
            parplan.Plan.load(envelope, trust, *self.files, time=time, **audience)
        except parplan.Error as error:
            ours = error.reason
        try:
            self._executor.Plan(self._library, envelope, trust, *self.files, time=time, **audience)
        except self._executor.Error as error:
            theirs = error.reason
        return ours, theirs


def test_both_verifiers_agree_on_every_bit_of_an_envelope(library):
    both = Both(library)
    text = plans.sign(both.payload.SerializeToString(), FIRST).to_json().encode()
    assert both.outcomes(text) == (None, None)
    # A key id is only a hint, and nothing else of an envelope may change.
    start = text.find(FIRST.key_id.encode())
    hint = range(start, start + 64)
    for bit in range(len(text) * 8):
        ours, theirs = both.outcomes(flipped(text, bit))
        assert ours == theirs, f"bit {bit}: {text[bit // 8:][:20]!r}"
        assert bit // 8 in hint or ours is not None, f"bit {bit} may change"


@pytest.mark.parametrize("change", [
    {"job_id": "j"}, {"time": ISSUE_TIME - 61}, {"time": ISSUE_TIME - 60},
    {"time": ISSUE_TIME + plans.DAY - 1}, {"time": ISSUE_TIME + plans.DAY}])
def test_both_verifiers_agree_on_time_and_job(library, change):
    both = Both(library)
    both.payload.job_id = "k"
    envelope = plans.sign(both.payload.SerializeToString(), FIRST).to_json().encode()
    ours, theirs = both.outcomes(envelope, **change)
    assert ours == theirs


def test_both_verifiers_agree_on_envelopes_that_strangers_write(library):
    both = Both(library)
    good = plans.sign(both.payload.SerializeToString(), FIRST)
    document = json.loads(good.to_json())
    texts = [b"", b"{", b"[]", b"null", b"\xef\xbb\xbf" + json.dumps(document).encode(),
             b"{}", b'{"payload":"AA","payload":"AA"}', b'{"a":' * 2000, b"[" * 100_000,
             json.dumps({**document, "more": 1}).encode(),
             json.dumps({**document, "payload": document["payload"].rstrip("=")}).encode(),
             json.dumps({**document, "payload": document["payload"] + "\n"}).encode(),
             json.dumps({**document, "payload": document["payload"].replace("A", "-", 1)}).encode(),
             json.dumps({**document, "payloadType": "\ud800"}).encode(),
             json.dumps({**document, "signatures": []}).encode(),
             json.dumps({**document, "signatures": [{"sig": 1}]}).encode(),
             json.dumps({**document, "signatures": document["signatures"] * 17}).encode(),
             json.dumps(document).replace('"sig"', '"s\\u0069g"').encode(),
             json.dumps(document).encode() + b" x", json.dumps(document).encode("utf-16"),
             json.dumps({**document, "payloadType": "é\u0001"}, ensure_ascii=False).encode()]
    draw = random.Random(7)
    base = json.dumps(document).encode()
    for _ in range(400):
        text = bytearray(base)
        for _ in range(draw.randint(1, 3)):
            place = draw.randrange(len(text))
            if draw.random() < 0.5:
                text[place] = draw.choice(b'{}[]",:\\ \n0aAzZ=+/-_\xff')
            else:
                del text[place:place + draw.randint(1, 40)]
        texts.append(bytes(text))
    for text in texts:
        ours, theirs = both.outcomes(text)
        assert ours == theirs, text[:200]


def test_both_verifiers_agree_on_trust_bundles(library):
    both = Both(library)
    envelope = plans.sign(both.payload.SerializeToString(), FIRST).to_json().encode()
    good = json.loads(both.trust)
    key = good["keys"][0]

    def bundle(**changes):
        changed = {name: value for name, value in {**key, **changes}.items() if value is not None}
        return json.dumps({"keys": [changed]}).encode()

    bundles = [
        b"", b"{}", b'{"keys":[]}', json.dumps({"keys": [key, key]}).encode(),
        json.dumps({**good, "more": []}).encode(), bundle(d="secret"), bundle(kty="RSA"),
        bundle(kty=None), bundle(crv="X25519"), bundle(use="enc"), bundle(use=None),
        bundle(alg=None), bundle(kid="0" * 64), bundle(x="AAAA"), bundle(x=key["x"] + "="),
        bundle(parplan_status="retired"), bundle(parplan_status="lost"), bundle(parplan_status=1),
        bundle(parplan_not_before=key["parplan_not_after"]), bundle(more="1"),
        bundle(parplan_not_after="2026-13-01T00:00:00Z"),
        bundle(parplan_not_after="2026-12-01 00:00:00Z"),
        bundle(parplan_not_after="2026-12-01T00:00:00"),
        bundle(parplan_not_after="infinite-future"),
        bundle(parplan_not_after="2026-12-01T00:00:00.123456789+05:30"),
        bundle(parplan_not_after="2026-12-31t23:59:60z")]
    for trust in bundles:
        ours, theirs = both.outcomes(envelope, trust)
        assert ours == theirs, trust
