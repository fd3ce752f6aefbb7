"""Marks of single cases of a parametrised test."""

from functools import partial

import pytest

long = partial(pytest.param, marks=pytest.mark.long)
"""Leaves a case of a parametrised test to the runs before a change lands."""
soak = partial(pytest.param, marks=pytest.mark.soak)
"""Leaves a case of a parametrised test to the long campaigns."""
