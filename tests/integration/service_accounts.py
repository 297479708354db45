"""Tokens of Kubernetes service accounts as a cluster would sign them, and the key set to verify
them with; by openssl alone."""
import base64
import json
import pathlib
import subprocess
import time

ISSUER = "https://kubernetes.default.svc"
AUDIENCE = "parplan"


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class ServiceAccounts:
    """The signer of a cluster; its key `one` is in the key set at first."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.key_set = self.folder / "jwks.json"
        self.make_key("one")
        self.write_key_set("one")

    def openssl(self, *arguments, **options):
        return subprocess.run(["openssl", *arguments], check=True, capture_output=True,
                              **options).stdout

    def make_key(self, name):
        self.openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out",
                     self.folder / f"{name}.pem")

    def write_key_set(self, name):
        text = self.openssl("rsa", "-in", self.folder / f"{name}.pem", "-noout", "-modulus").decode()
        modulus = bytes.fromhex(text.strip().split("=")[1])
        self.key_set.write_text(json.dumps({"keys": [{
            "kty": "RSA", "use": "sig", "alg": "RS256", "kid": name, "n": encode(modulus),
            "e": "AQAB"}]}))

    def token(self, key="one", header=None, **changes):
        """A token of `planner` in the namespace `lab` for ten minutes, but for `changes` of its
        claims."""
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": [AUDIENCE], "sub": "system:serviceaccount:lab:planner",
                  "exp": now + 600, "nbf": now, **changes}
        text = ".".join(encode(json.dumps(part).encode()) for part in (
            header or {"alg": "RS256", "kid": key}, claims))
        signature = self.openssl("dgst", "-sha256", "-sign", self.folder / f"{key}.pem",
                                 input=text.encode())
        return f"{text}.{encode(signature)}"

    def configuration(self, key_set=None):
        """The member `service_accounts` of a server's `authorization`."""
        return {"key_set_file": str(key_set or self.key_set), "issuer": ISSUER,
                "audience": AUDIENCE}
