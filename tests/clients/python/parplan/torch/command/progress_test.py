"""The bar of a long measurement: on a terminal alone, and gone at the end."""

import io

import pytest

from parplan.torch.command.main import main
from parplan.torch.command.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_shows_how_much_is_done():
    stream = Terminal()
    progress = Progress(4, stream)
    for item in ("embedding", "block", "head", "optimizer"):
        progress.begin(item)
    shown = stream.getvalue().split("\r")
    assert shown[1] == "[" + "." * 24 + "] 0/4 embedding\x1b[K"
    assert shown[-1] == "[" + "#" * 18 + "." * 6 + "] 3/4 optimizer\x1b[K"
    progress.end()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_writes_nothing_where_nobody_watches():
    stream = io.StringIO()
    progress = Progress(1, stream)
    progress.begin("block")
    progress.end()
    assert stream.getvalue() == ""


def test_measurements_of_nothing_are_no_division_by_zero():
    stream = Terminal()
    Progress(0, stream).begin("block")
    assert "0/1 block" in stream.getvalue()


@pytest.mark.parametrize("arguments", [
    [], ["profile"], ["profile", "--model", "m:f", "--spec", "s", "--micro-batch", "0"]])
def test_wrong_arguments_end_with_two(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "parplan-torch" in capsys.readouterr().err
