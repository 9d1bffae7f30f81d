"""Keyword arguments as the texts that the library reads: "key=value"."""

from collections.abc import Iterable, Mapping
from typing import Any

from ._native import UsageError


def text_of(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if value is None:
        raise UsageError(f"{key}: expected a value, got None")
    if isinstance(value, Iterable):
        return ",".join(text_of(key, part) for part in value)
    if hasattr(value, "item"):  # a number of NumPy
        return text_of(key, value.item())
    return str(value)


def flat(settings: Mapping[str, Any]) -> dict[str, str]:
    """Dotted keys and texts; a mapping is a group of keys: {"ppo": {"gamma": 0.9}} is ppo.gamma."""
    texts = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            texts.update((f"{key}.{inner}", text) for inner, text in flat(value).items())
        else:
            texts[key] = text_of(key, value)
    return texts


def assignments(settings: Mapping[str, Any]) -> list[str]:
    return [f"{key}={text}" for key, text in flat(settings).items()]
