from __future__ import annotations

from pathlib import Path

import pytest

from alem import cli, data
from tests.experiments.conftest import small


@pytest.fixture
def small_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.npz"
    data.save(small(), path)
    return path


def alem(*arguments: object) -> int:
    """The command in this process; its exit code."""
    return cli.main([str(argument) for argument in arguments])


def failure(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line that a command leaves which cannot be done."""
    try:
        code = alem(*arguments)
    except SystemExit as ended:
        code = int(ended.code or 0)
    shown = capsys.readouterr()
    lines = [line for line in shown.err.splitlines() if line.strip()]
    assert code == 2, shown.err
    assert len(lines) == 1, shown.err
    assert "Traceback" not in shown.err
    return lines[0]
