"""Trust bundles with versions: this package decides as the C++ verifier does, over the same file of
bundles (tests/proto/envelope/trust_bundle_vectors.json)."""

import concurrent.futures
import dataclasses
import fcntl
import json
import pathlib

import pytest
import signed_plans as plans
from signed_plans import FIRST, ISSUE_TIME, SECOND

import parplan
from parplan.envelope import Audience, BundleVersion, TrustBundle, accept, rfc3339, verify
from parplan.wire import messages

ROOT = next(folder for folder in pathlib.Path(__file__).parents if (folder / "proto").is_dir()
            and folder.name != "tests")
VECTORS = json.loads((ROOT / "tests/proto/envelope/trust_bundle_vectors.json").read_text())
BUNDLES = {name: TrustBundle.from_json(json.dumps(one)) for name, one in VECTORS["bundles"].items()}


def signed_plan(*keys):
    payload = messages.PlanPayload(plan="clusters/atlas/plans/p1", cluster="atlas", device_count=8,
                                   micro_batch_count=1)
    payload.issue_time.seconds = ISSUE_TIME
    payload.expire_time.seconds = ISSUE_TIME + plans.DAY
    payload.stages.add()
    return plans.sign(payload.SerializeToString(), *keys)


def test_good_bundles_have_the_version_of_their_file():
    for name, document in VECTORS["bundles"].items():
        version = BUNDLES[name].version
        assert (version and version.sequence) == document.get("parplan_sequence"), name


@pytest.mark.parametrize("name", VECTORS["refused"])
def test_others_are_refused(name):
    with pytest.raises(parplan.errors.SpecInvalid, match="parplan_"):
        TrustBundle.from_json(json.dumps(VECTORS["refused"][name]))


def test_a_verifier_goes_forward_and_never_back():
    pairs = []
    for accepted, one in BUNDLES.items():
        for following, other in BUNDLES.items():
            try:
                one.check_successor(other)
                pairs.append([accepted, following])
            except parplan.errors.SignatureInvalid as error:
                assert error.code == "PERMISSION_DENIED"
    assert pairs == VECTORS["may_follow"]


def test_an_expired_bundle_verifies_nothing():
    for name, time in VECTORS["alive"]:
        BUNDLES[name].check_life(rfc3339.parse_time(time))
    for name, time in VECTORS["expired"]:
        with pytest.raises(parplan.errors.SignatureInvalid, match="the trust bundle expired at"):
            verify(signed_plan(FIRST), BUNDLES[name], Audience(), rfc3339.parse_time(time))


def test_a_revoked_key_is_none_of_the_signers():
    now = ISSUE_TIME * rfc3339.NANOSECONDS
    with pytest.raises(parplan.errors.SignatureInvalid, match="was revoked at"):
        verify(signed_plan(FIRST), BUNDLES["first revoked"], Audience(), now)
    verified = verify(signed_plan(FIRST, SECOND), BUNDLES["first revoked"], Audience(), now)
    assert verified.key_id == SECOND.key_id


def test_a_memory_refuses_older_bundles_and_those_that_no_known_key_signed(tmp_path):
    memory = tmp_path / "accepted"
    text = {name: json.dumps(one) for name, one in VECTORS["bundles"].items()}
    accept(text["one key"], memory)
    accept(text["first revoked"], memory)
    for name in ("one key", "two keys", "one key, no version", "by the revoked key"):
        with pytest.raises(parplan.errors.SignatureInvalid):
            accept(text[name], memory)
    assert memory.read_text() == text["first revoked"]
    accept(text["second alone"], memory)
    accept(text["one key"])
    with pytest.raises(parplan.errors.SpecInvalid, match="cannot remember"):
        accept(text["one key"], tmp_path / "none" / "accepted")


def test_a_bundle_that_waited_is_compared_with_the_one_accepted_meanwhile(tmp_path):
    memory = tmp_path / "accepted"
    text = {name: json.dumps(one) for name, one in VECTORS["bundles"].items()}
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        with open(f"{memory}.lock", "a", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            older = threads.submit(accept, text["one key"], memory)
            # Whether the thread waits for the lock by now or has not begun, it may not win.
            concurrent.futures.wait([older], timeout=0.2)
            memory.write_text(text["first revoked"])
        with pytest.raises(parplan.errors.SignatureInvalid):
            older.result()
    assert memory.read_text() == text["first revoked"]


def test_every_value_is_signed():
    bundle = BUNDLES["first revoked"]
    changes = [dataclasses.replace(bundle, version=version) for version in (
        dataclasses.replace(bundle.version, sequence=bundle.version.sequence + 1),
        dataclasses.replace(bundle.version, issue_time=bundle.version.issue_time + 1),
        dataclasses.replace(bundle.version, expire_time=bundle.version.expire_time + 1))]
    for index, key in enumerate(bundle.keys):
        for change in ({"not_before": key.not_before - 1}, {"not_after": key.not_after + 1},
                       {"revoke_time": (key.revoke_time or 0) + 1}):
            keys = list(bundle.keys)
            keys[index] = dataclasses.replace(key, **change)
            changes.append(dataclasses.replace(bundle, keys=tuple(keys)))
        changes.append(dataclasses.replace(
            bundle, keys=bundle.keys[:index] + bundle.keys[index + 1:]))
    texts = {bundle.signed_bytes(), *(one.signed_bytes() for one in changes)}
    assert len(texts) == len(changes) + 1
    assert isinstance(bundle.version, BundleVersion)
