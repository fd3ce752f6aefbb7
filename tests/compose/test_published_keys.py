"""The list of the operator's keys, which everybody may ask for at any time (RC4)."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from bot.compose.receipts import published_keys
from bot.config.settings import Secret, Settings
from bot.receipts.envelope import decode_keys


@pytest.mark.req("RC4")
def test_many_who_ask_first_all_get_the_key(tmp_path: Path) -> None:
    """Each may find that the file is to be written, and none finds it half written or gone."""
    with ThreadPoolExecutor(16) as pool:
        for attempt in range(20):
            given = replace(Settings(), data_dir=tmp_path / str(attempt), state_key=Secret("k" * 40))
            lists = [decode_keys(content) for content in pool.map(published_keys, [given] * 16)]
            assert {key.id for keys in lists for key in keys} == {lists[0][0].id}
            assert [file.name for file in given.data_dir.iterdir()] == ["plangate-keys.json"]
