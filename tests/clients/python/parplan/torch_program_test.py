"""The program `parplan-torch` without PyTorch, and its releases."""

import json
import pathlib
import subprocess
import sys

from parplan import torch_program

PROGRAM = pathlib.Path(sys.executable).with_name("parplan-torch")


def fake_torch(folder, version="2.99.0+cpu"):
    """Makes a package that stands for PyTorch and cannot be imported."""
    package = folder / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('imported')\n")
    (package / "version.py").write_text(f"__version__ = {version!r}\n")
    return folder


def test_releases_are_read_without_importing_torch(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(fake_torch(tmp_path)))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert torch_program.main(["versions"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "parplan 0.1.0" in lines and "torch 2.99.0+cpu" in lines
    out = tmp_path / "out"
    assert torch_program.main(["versions", "--format", "json", "--out", str(out)]) == 0
    assert json.loads(out.read_text())["torch"] == "2.99.0+cpu"
    assert capsys.readouterr().out == ""


def test_without_torch_it_says_what_to_install(monkeypatch, capsys):
    real = torch_program.importlib.util.find_spec
    monkeypatch.setattr(torch_program.importlib.util, "find_spec",
                        lambda name: None if name == "torch" else real(name))
    for words in (["versions"], ["profile", "--help"], []):
        assert torch_program.main(words) == 1
        assert f"{sys.executable} -m pip install 'parplan[torch]'" in capsys.readouterr().err


def test_the_installed_program_is_this_one(monkeypatch):
    done = subprocess.run([PROGRAM, "versions"], capture_output=True, text=True, timeout=60)
    has_torch = torch_program.importlib.util.find_spec("torch") is not None
    assert done.returncode == (0 if has_torch else 1), done.stderr
    assert "Traceback" not in done.stderr
