#!/usr/bin/python3
"""Kills the server with SIGKILL at random moments of uploads and plans, and looks
after each restart: nothing it acknowledged is lost, nothing is there by half.

    kill_soak_test.py SERVER [--requests 200] [--kills 40] [--seed N] [--seconds 90]
"""
import argparse
import random
import tempfile
import threading
import time
import uuid

import grpc

import parplan_process as parplan

PLANS = "parplan.v1.PlanService"
PROFILES = "parplan.v1.ProfileService"
AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL)


class Soak:
    def __init__(self, server, generator):
        self.server = server
        self.generator = generator
        self.uploads = {}    # Name of each acknowledged profile: its digest.
        self.plans = {}      # Name of each acknowledged plan: its signed bytes.
        self.overlaps = set()  # Of every upload that was ever begun.
        self.client = None

    def make_request(self, number):
        """A request that may be repeated: what `send` does with it is the same."""
        request_id = str(uuid.UUID(int=self.generator.getrandbits(128), version=4))
        if number < 2 or self.generator.random() < 0.5:
            # Equal digests would hide a profile that was lost.
            overlap = 1.0 + number / 1000
            self.overlaps.add(overlap)
            return ("upload", request_id, overlap)
        return ("plan", request_id, f"job-{number}")

    def send(self, request):
        kind, request_id, value = request
        if kind == "upload":
            stored = self.client.upload("clusters/lab/nodes/node-0", request_id,
                                        parplan.small_profile(value), timeout=20)
            self.uploads[stored.name] = stored.digest
        else:
            plan = self.client.call(PLANS, "CreatePlan", parplan.small_question(
                batch=8, job_id=value, request_id=request_id), timeout=20)
            self.plans[plan.name] = plan.signed_plan.SerializeToString()

    def restart(self):
        if self.client is not None:
            self.client.channel.close()
        self.server.start()
        self.client = parplan.Client(self.server.address)

    def check(self):
        """Everything acknowledged is there, everything there is whole."""
        whole = parplan.small_profile()
        listed = self.list_all(PROFILES, "ListProfiles", "profiles")
        missing = self.uploads.keys() - listed
        assert not missing, f"acknowledged and lost: {missing}"
        for name in listed:
            profile = self.client.call(PROFILES, "GetProfile", {"name": name})
            for field in ("layer_definitions", "layer_timings", "layer_memories",
                          "collective_timings"):
                assert len(getattr(profile, field)) == len(whole[field]), f"half of {name}: {field}"
            assert profile.overlap_slowdown in self.overlaps, f"never uploaded: {name}"
            assert self.uploads.get(name, profile.digest) == profile.digest, f"altered: {name}"
        plans = self.list_all(PLANS, "ListPlans", "plans")
        missing = self.plans.keys() - plans
        assert not missing, f"acknowledged and lost: {missing}"
        for name in plans:
            plan = self.client.call(PLANS, "GetPlan", {"name": name})
            signed = plan.signed_plan.SerializeToString()
            assert self.plans.get(name, signed) == signed, f"altered: {name}"
        if plans:
            self.verify(self.generator.choice(sorted(plans)))
        return len(listed), len(plans)

    def verify(self, name):
        plan = self.client.call(PLANS, "GetPlan", {"name": name})
        request = self.client.message("parplan.v1.VerifyPlanRequest")(signed_plan=plan.signed_plan)
        verify = self.client.channel.unary_unary(
            f"/{PLANS}/VerifyPlan", type(request).SerializeToString,
            self.client.message("parplan.v1.VerifyPlanResponse").FromString)
        answer = verify(request, timeout=20)
        assert answer.verdict == 1, f"{name}: {answer.detail}"

    def list_all(self, service, method, field):
        names, token = set(), ""
        while True:
            page = self.client.call(service, method, {
                "parent": "clusters/lab", "page_size": 500, "page_token": token})
            names.update(item.name for item in getattr(page, field))
            token = page.next_page_token
            if not token:
                return names


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--seconds", type=float, default=90)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    generator = random.Random(options.seed)
    end = time.monotonic() + options.seconds
    kills = retried = 0
    with tempfile.TemporaryDirectory() as folder, \
            parplan.Server(options.server, folder, "--log-level", "error",
                           "--profiles-per-node", "0") as server:
        soak = Soak(server, generator)
        soak.client = parplan.Client(server.address)
        kill_before = set(generator.sample(range(options.requests), options.kills))
        done = 0
        typical = 0.01  # Seconds a request takes.
        for number in range(options.requests):
            if time.monotonic() > end:
                print(f"out of time after {number} requests")
                break
            request = soak.make_request(number)
            killer = None
            if number in kill_before:
                # From before the first byte to after the answer.
                killer = threading.Timer(generator.random() * 1.5 * typical, server.kill)
                killer.start()
            while True:
                try:
                    began = time.monotonic()
                    soak.send(request)
                    typical = 0.8 * typical + 0.2 * (time.monotonic() - began)
                    break
                except grpc.RpcError as error:
                    assert killer is not None and error.code() in AWAY, (
                        f"request {number}: {error.code()} {error.details()}")
                    killer.join()
                    killer = None
                    kills += 1
                    retried += 1
                    soak.restart()
                    soak.check()
            if killer is not None:
                killer.join()
                kills += 1
                soak.restart()
                soak.check()
            done += 1
        profiles, plans = soak.check()
        assert profiles == len(soak.uploads), "a profile was stored twice"
        assert done >= options.requests // 2, "too slow to say anything"
        print(f"{done} requests, {kills} kills, {retried} of them before the answer; "
              f"{profiles} profiles and {plans} plans, none lost, none by half")
        assert server.end() == 0


if __name__ == "__main__":
    main()
