"""Which cluster is meant, and what is said where none is."""

import pytest

from parkade.adapters.errors import UnavailableError
from parkade.adapters.kubeconfig import connect


def test_no_kubeconfig_says_what_to_do(tmp_path):
    with pytest.raises(UnavailableError, match=r"No cluster to talk to.*--kubeconfig"):
        connect(str(tmp_path / "none"))
