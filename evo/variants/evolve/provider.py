"""Providers of language models: their addresses, the environment variables with their keys, and their SDKs."""

from collections.abc import Mapping
from importlib import import_module
from typing import Literal, TypeAlias

from evo.errors import EvoError

Protocol: TypeAlias = Literal["openai", "anthropic"]
BASES: Mapping[Protocol, str] = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com/v1"}
KEYS: Mapping[Protocol, str] = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
"""Environment variables that contain the keys. Keys are only sent, never stored or logged."""

KEY_VARIABLE = "KERNEL_EVO_MODEL_KEY"
"""Environment variable that contains the key for the provider at --base-url."""

LEAST_KEY = 8
"""Minimum length of a secret key. A shorter key is a placeholder such as ``none``."""

EXTRA = "evolve"


class SdkMissing(EvoError):
    """The SDK of a language model's provider is not installed."""


def require(provider: Protocol) -> None:
    """Import the SDK of a provider.

    Raises:
        SdkMissing: the SDK is not installed.
    """
    try:
        import_module(provider)
    except ModuleNotFoundError as error:
        raise SdkMissing(
            f"requests to a language model need the package `{provider}`, which is not installed; install kernel-evo "
            f"with the extra `{EXTRA}`, in a clone: .venv/bin/pip install -e '.[{EXTRA}]'"
        ) from error


def without_key(text: str, key: str | None) -> str:
    """Return a text with ``…`` in place of a secret key. Placeholders are kept, because sources may contain them."""
    return text if key is None or len(key) < LEAST_KEY else text.replace(key, "…")
