#!/usr/bin/python3
"""The commands of parplan-server that look after its keys and records, as an operator runs them.

    server_commands_test.py --planctl PATH --server-binary PATH
"""
import json
import pathlib
import stat

from planctl_run import BAD_INPUT, NOT_FOUND, PlanctlTest, main

COMMANDS = (["keys"], ["keys", "generate"], ["keys", "list"], ["keys", "rotate"], ["keys", "revoke"],
            ["keys", "bundle"],
            ["store"], ["store", "migrate"], ["store", "backup"], ["store", "check"],
            ["store", "restore"])


class ServerCommandTest(PlanctlTest):
    def text(self, *arguments, program="server_binary", **expected):
        return super().text(*arguments, program=program, **expected)

    def json(self, *arguments, program="server_binary", **expected):
        return super().json(*arguments, program=program, **expected)


class Arguments(ServerCommandTest):
    def test_every_command_has_help_with_an_example(self):
        for command in COMMANDS:
            self.assertIn("Example:\n  parplan-server " + command[0],
                          self.text(*command, "--help").stdout)
        told = self.text("--help").stdout
        for command in ("keys", "store"):
            self.assertRegex(told, rf"(?m)^  {command} ")

    def test_wrong_arguments_give_2_and_one_object(self):
        for arguments in ([], ["fly"], ["keys"], ["store"], ["keys", "fly"], ["keys", "list"],
                          ["keys", "list", "--listen", "127.0.0.1:0"],
                          ["store", "migrate", "--store", "mysql:here"],
                          ["store", "backup", "--store", "sqlite:here"]):
            self.json(*arguments, code=BAD_INPUT)
        for arguments in (["keys"], ["store", "check"]):
            self.text(*arguments, code=BAD_INPUT)

    def test_flags_of_a_server_before_a_command_are_refused(self):
        done = self.text("--data-dir", self.folder, "keys", "list", "--data-dir", self.folder,
                         code=BAD_INPUT)
        self.assertIn("`keys` must be the first argument", done.stderr)

    def test_flags_of_answers_may_stand_before_and_behind_the_command(self):
        self.json("keys", "generate", "--data-dir", self.folder / "data")
        done = self.text("keys", "list", "--data-dir", self.folder / "data", "--format", "json")
        self.assertEqual(len(json.loads(done.stdout)["keys"]), 2)
        self.assertEqual(self.text("keys", "rotate", "--data-dir", self.folder / "data",
                                   "--quiet").stderr, "")


class Store(ServerCommandTest):
    def test_records_are_backed_up_checked_and_restored(self):
        address, other = f"sqlite:{self.folder}/data", f"sqlite:{self.folder}/other"
        backup = self.folder / "records.backup"
        self.assertEqual(self.json("store", "migrate", "--store", address), {"store": address})
        written = self.json("store", "backup", "--store", address, "--file", backup)
        self.assertEqual(self.json("store", "check", "--file", backup), written)
        self.assertEqual(self.json("store", "restore", "--store", other, "--file", backup), written)
        self.assertIn(written["digest"], self.text("store", "check", "--file", backup).stdout)
        self.assertIn("signing keys are not in it",
                      self.text("store", "backup", "--store", address, "--file",
                                self.folder / "again.backup").stderr)


class Keys(ServerCommandTest):
    def keys(self, command, **expected):
        return self.json("keys", command, "--data-dir", self.folder / "data", **expected)

    def test_bundles_of_several_servers_become_one(self):
        for name in ("a", "b"):
            self.json("keys", "generate", "--data-dir", self.folder / name)
        paths = [self.folder / name / "trust-bundle.jwks.json" for name in ("a", "b")]
        one = self.json("keys", "bundle", "--data-dir", self.folder / "a")
        self.assertEqual(one, json.loads(paths[0].read_text()))
        # Twice the same server, and another.
        both = self.json("keys", "bundle", "--data-dir", self.folder / "a",
                         "--bundle", paths[0], "--bundle", paths[1])
        self.assertEqual(sorted(key["kid"] for key in both["keys"]),
                         sorted(key["kid"] for path in paths
                                for key in json.loads(path.read_text())["keys"]))
        self.json("keys", "bundle", code=BAD_INPUT)
        self.json("keys", "bundle", "--data-dir", self.folder / "none", code=BAD_INPUT)

    def test_a_bundle_of_several_servers_is_signed_and_keeps_revocations(self):
        for name in ("a", "b"):
            self.json("keys", "generate", "--data-dir", self.folder / name)
        old = self.folder / "old.jwks.json"
        old.write_text((self.folder / "b" / "trust-bundle.jwks.json").read_text())
        key = self.json("keys", "list", "--data-dir", self.folder / "b")["keys"][0]["key_id"]
        revoked = self.json("keys", "revoke", key, "--data-dir", self.folder / "b")
        self.assertEqual((revoked["key_id"], revoked["keys"][0]["status"]), (key, "revoked"))
        merge = ("keys", "bundle", "--data-dir", self.folder / "a",
                 "--bundle", self.folder / "b" / "trust-bundle.jwks.json", "--bundle", old)
        first, second = self.json(*merge), self.json(*merge)
        statuses = {one["kid"]: one["parplan_status"] for one in first["keys"]}
        self.assertEqual(statuses[key], "revoked")
        self.assertTrue(first["parplan_signatures"])
        self.assertGreaterEqual(second["parplan_sequence"], first["parplan_sequence"])
        self.json("keys", "revoke", "0" * 8, "--data-dir", self.folder / "b", code=NOT_FOUND)

    def test_keys_are_made_listed_and_rotated(self):
        self.assertEqual(self.keys("list", code=NOT_FOUND)["error"]["reason"],
                         "RESOURCE_NOT_FOUND")
        self.keys("rotate", code=NOT_FOUND)
        made = self.keys("generate")
        self.assertEqual([key["status"] for key in made["keys"]], ["active", "next"])
        self.assertEqual(made["key_id"], made["keys"][1]["key_id"])
        listed = self.keys("list")
        self.assertEqual(listed["keys"], made["keys"])
        rotated = self.keys("rotate")
        self.assertEqual(rotated["key_id"], made["key_id"])
        self.assertEqual([key["status"] for key in rotated["keys"]], ["active", "active"])
        self.assertLess(rotated["keys"][0]["not_after"], made["keys"][0]["not_after"])
        self.assertIn(made["key_id"], self.text("keys", "list", "--data-dir",
                                                self.folder / "data").stdout)

    def test_only_the_owner_can_read_private_keys(self):
        made = self.keys("generate")
        folder = self.folder / "data" / "keys"
        files = [path for path in folder.rglob("*") if path.is_file()]
        self.assertTrue(files)
        for path in [folder, *files]:
            self.assertEqual(stat.S_IMODE(path.stat().st_mode) & 0o077, 0, path)
        pem = [path for path in files if b"PRIVATE KEY" in path.read_bytes()]
        self.assertEqual(len(pem), 2)
        for path in pem:
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        bundle = json.loads(pathlib.Path(made["trust_bundle"]).read_text())
        self.assertEqual(len(bundle["keys"]), 2)
        for key in bundle["keys"]:
            self.assertNotIn("d", key)


if __name__ == "__main__":
    main()
