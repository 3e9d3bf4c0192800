"""The tree never shadows the standard library: `operator/` is a source root, not a package."""

import operator
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_operator_is_the_standard_librarys():
    assert Path(operator.__file__).is_relative_to(sysconfig.get_path("stdlib"))


def test_operator_is_no_package_and_tests_have_no_folder_of_that_name():
    assert not (ROOT / "operator" / "__init__.py").exists()
    assert not (ROOT / "tests" / "operator").exists()


def test_from_the_root_a_fresh_interpreter_finds_the_standard_librarys():
    code = "import operator, parkade; print(operator.itemgetter(0)('ok'), operator.__file__)"
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert answer[0] == "o"
    assert not Path(answer[1]).is_relative_to(ROOT / "operator")
