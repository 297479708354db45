"""Errors of files have the codes that planctl gives them."""

import json
import os

import pytest

from parplan.errors import SpecInvalid
from parplan.torch.command.errors import BAD_INPUT, report_error


def reported(capsys, error):
    assert report_error(error, True) == BAD_INPUT
    shown = capsys.readouterr()
    assert str(error) in shown.err
    return json.loads(shown.out)["error"]


@pytest.mark.parametrize("make, code", [
    (lambda folder: (folder / "none").read_bytes(), "NOT_FOUND"),
    (lambda folder: folder.read_bytes(), "FAILED_PRECONDITION"),
    (lambda folder: (folder / "file" / "below").read_bytes(), "FAILED_PRECONDITION"),
    (lambda folder: (folder / ("n" * 300)).read_bytes(), "INVALID_ARGUMENT"),
    (lambda folder: folder.mkdir(), "ALREADY_EXISTS")])
def test_an_error_of_a_file_has_the_code_of_its_number(tmp_path, capsys, make, code):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError) as raised:
        make(tmp_path)
    assert reported(capsys, raised.value)["code"] == code


@pytest.mark.parametrize("name, code", [
    ("EACCES", "PERMISSION_DENIED"), ("EROFS", "PERMISSION_DENIED"),
    ("ENOSPC", "RESOURCE_EXHAUSTED"), ("EIO", "UNKNOWN")])
def test_what_a_test_cannot_provoke_has_one_too(capsys, name, code):
    number = getattr(__import__("errno"), name)
    assert reported(capsys, OSError(number, os.strerror(number)))["code"] == code


def test_an_error_without_a_number_is_not_one_of_a_missing_file(capsys):
    assert reported(capsys, OSError("no number"))["code"] == "UNKNOWN"


def test_other_errors_keep_their_code(capsys):
    error = SpecInvalid("wrong", code="INVALID_ARGUMENT", reason="SPEC_INVALID")
    assert reported(capsys, error)["code"] == "INVALID_ARGUMENT"
