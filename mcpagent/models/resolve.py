"""Create the model that a user names: `provider:model?option=value`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from mcpagent.config.secret_store import EnvironmentWithKeys, with_stored_keys
from mcpagent.errors import ConfigError, CredentialsError
from mcpagent.models.base import Model
from mcpagent.models.endpoints.model_identity import identity_of, is_ollama_cloud
from mcpagent.models.model_names import names_in
from mcpagent.models.model_settings import INSIDE, SETTING_NAMES, as_texts, settings_of
from mcpagent.utilities.python.argument_checks import expect, expect_arguments
from mcpagent.utilities.text.safe_text import safe_line
from mcpagent.utilities.text.secrets import without_credentials

if TYPE_CHECKING:
    import httpx2

    from mcpagent.models.capabilities import Capabilities, Discovery


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider, which the prefix of a model's name selects.

    `protocol` is its API. The first of `key_variables` that is set counts; if the tuple is empty, it needs no key.
    `default_model` is used if only a key is set, or if the name is only the prefix.
    """

    protocol: Literal["messages", "responses", "chat"]
    key_variables: tuple[str, ...] = ()
    default_model: str = ""
    base_url: str | None = None
    base_url_variable: str = ""
    needs_key: bool = True
    hint: str = ""
    client: str = ""
    """The class in Anthropic's SDK for this cloud, which uses the cloud's own credentials; "" if it is no cloud."""


def _own_server(port: int, hint: str, *key_variables: str) -> Provider:
    return Provider(
        "chat",
        key_variables,
        base_url=f"http://localhost:{port}/v1",
        needs_key=False,
        hint=hint,
    )


PROVIDERS: Mapping[str, Provider] = {
    "anthropic": Provider(
        "messages",
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        "claude-sonnet-5-5",
        base_url_variable="ANTHROPIC_BASE_URL",
    ),
    "openai": Provider(
        "responses", ("OPENAI_API_KEY",), "gpt-5.5", base_url_variable="OPENAI_BASE_URL"
    ),
    "openai-chat": Provider(
        "chat", ("OPENAI_API_KEY",), "gpt-5.5", base_url_variable="OPENAI_BASE_URL"
    ),
    "gemini": Provider(
        "chat",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "gemini-3-flash-preview",
        "https://generativelanguage.googleapis.com/v1beta/openai",
    ),
    "google": Provider(
        "chat",
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        "gemini-3-flash-preview",
        "https://generativelanguage.googleapis.com/v1beta/openai",
    ),
    "openrouter": Provider(
        "chat",
        ("OPENROUTER_API_KEY",),
        "openrouter/auto",
        "https://openrouter.ai/api/v1",
    ),
    "groq": Provider(
        "chat", ("GROQ_API_KEY",), base_url="https://api.groq.com/openai/v1"
    ),
    "mistral": Provider(
        "chat", ("MISTRAL_API_KEY",), base_url="https://api.mistral.ai/v1"
    ),
    "deepseek": Provider(
        "chat", ("DEEPSEEK_API_KEY",), base_url="https://api.deepseek.com/v1"
    ),
    "xai": Provider("chat", ("XAI_API_KEY",), base_url="https://api.x.ai/v1"),
    "together": Provider(
        "chat", ("TOGETHER_API_KEY",), base_url="https://api.together.xyz/v1"
    ),
    "fireworks": Provider(
        "chat", ("FIREWORKS_API_KEY",), base_url="https://api.fireworks.ai/inference/v1"
    ),
    "cerebras": Provider(
        "chat", ("CEREBRAS_API_KEY",), base_url="https://api.cerebras.ai/v1"
    ),
    "moonshot": Provider(
        "chat",
        ("MOONSHOT_API_KEY", "MOONSHOTAI_API_KEY"),
        base_url="https://api.moonshot.ai/v1",
    ),
    "zai": Provider(
        "chat", ("ZAI_API_KEY", "Z_AI_API_KEY"), base_url="https://api.z.ai/api/paas/v4"
    ),
    "huggingface": Provider(
        "chat", ("HF_TOKEN",), base_url="https://router.huggingface.co/v1"
    ),
    "cohere": Provider(
        "chat",
        ("COHERE_API_KEY", "CO_API_KEY"),
        base_url="https://api.cohere.ai/compatibility/v1",
    ),
    "azure": Provider(
        "responses",
        ("AZURE_OPENAI_API_KEY",),
        base_url_variable="AZURE_OPENAI_ENDPOINT",
    ),
    "bedrock": Provider("messages", client="AsyncAnthropicBedrock", needs_key=False),
    "vertex": Provider("messages", client="AsyncAnthropicVertex", needs_key=False),
    "ollama": replace(
        _own_server(
            11434,
            "is ollama running there, and is the model pulled? (ollama serve, ollama pull <model>)",
        ),
        key_variables=("OLLAMA_API_KEY",),
        base_url_variable="OLLAMA_HOST",
    ),
    "vllm": _own_server(
        8000,
        "is vLLM running there, and with this model? (vllm serve <model>)",
        "VLLM_API_KEY",
    ),
    "llamacpp": _own_server(
        8080,
        "is llama.cpp running there? (llama-server --jinja -m <model.gguf>)",
        "LLAMA_API_KEY",
    ),
    "lmstudio": _own_server(
        1234,
        "is LM Studio's server running there, with a model loaded? (lms server start)",
    ),
}

_Default = TypeVar("_Default", float, None)
_TRIED_BY_KEY = ("anthropic", "openai", "gemini", "openrouter")
_OPEN_WEIGHTS = ("gpt-oss", "gemma", "phi", "smollm", "qwen", "llama")
"""Beginnings of names of models that users usually run on their own machine."""

_SHOWN_PREFIXES = 8
"""Number of known prefixes that an error about an unknown prefix lists."""

_PREFIXES = {"google": "gemini", "qwen": "ollama", "meta": "ollama"}
"""Maker of a model -> prefix of the provider, if they differ."""

_OPTIONS = ("api_key_env", "base_url", "calls", "discovery", "max_retries")
"""Options other than the settings of `model_settings.py`."""


def resolve_model(
    spec: str | Model | Sequence[str | Model] | None,
    *,
    environ: Mapping[str, str] | None = None,
    http_client: httpx2.AsyncClient | None = None,
) -> Model:
    """Create a model.

    A `Model` is returned unchanged. A text is `provider:model`, with options as in a URL's query:
    `ollama:qwen3?temperature=0`, `openai-chat:name?base_url=http://localhost:8000/v1&api_key_env=MY_KEY`; "offline" is
    the built-in offline model. A list, or a text with commas, is a chain: if a model cannot answer or has no key, the
    next one answers. None uses `default_spec`.

    Keys come from `environ`; by default, from the process's environment, then from the keys set by `mcpagent keys set`.
    No connection is opened. Raises `ConfigError` for an unknown name, and `CredentialsError` for a missing or invalid
    key, and if there is neither a model nor a key.
    """
    expect("environ", environ, (Mapping, NoneType), "a dict or None")
    expect_arguments("resolve_model", resolve_model, {"http_client": http_client})
    if environ is None:
        environ = with_stored_keys(os.environ)
    if spec is not None and not isinstance(spec, str):
        if isinstance(spec, Model) and not isinstance(spec, type):
            return spec
        if isinstance(spec, Sequence):
            return _chain(spec, environ, http_client)
        raise ConfigError(_not_a_model(spec))
    if spec is None:
        spec = default_spec(environ)
        if not spec:
            raise CredentialsError(_NO_KEY)
    names = names_in(spec)
    if len(names) > 1:
        return _chain([name for name in names if name], environ, http_client)
    [spec] = names
    if spec == "offline":
        from mcpagent.models.local.offline_model import OfflineModel

        return OfflineModel()
    parsed = parse_spec(spec)
    return _build(parsed, environ, http_client)


def _chain(
    specs: Sequence[str | Model],
    environ: Mapping[str, str],
    http_client: httpx2.AsyncClient | None,
) -> Model:
    from mcpagent.models.fallback import FallbackModel, UnusableModel

    models: list[Model] = []
    for spec in specs:
        try:
            models.append(resolve_model(spec, environ=environ, http_client=http_client))
        except CredentialsError as error:
            models.append(UnusableModel(str(spec).partition("?")[0], error))
    unusable = [model for model in models if isinstance(model, UnusableModel)]
    if unusable and len(unusable) == len(models):
        raise unusable[0].error
    owned = [
        model for model, spec in zip(models, specs, strict=True) if model is not spec
    ]
    return FallbackModel(models, owned=owned)


def _not_a_model(given: object) -> str:
    missing = [
        name for name in ("name", "respond", "aclose") if not hasattr(given, name)
    ]
    what = f"{type(given).__name__}, which has no {', '.join(missing)}"
    if isinstance(given, type):
        what = f"the class {given.__name__}; write {given.__name__}(...)"
    return f"model: expected a name such as anthropic:claude-sonnet-5-5, or a Model; got {what}"


def spec_of(model: Model) -> str:
    """Return the text from which `resolve_model` creates this model, without keys; "" if there is no such text."""
    provider, colon, name = model.name.partition(":")
    if provider == "offline":
        return provider
    from mcpagent.models.http_model import ANTHROPIC_URL, OPENAI_URL, HttpModel

    if not isinstance(model, HttpModel) or not colon or provider not in PROVIDERS:
        return ""
    at, settings = PROVIDERS[provider], model.settings
    usual = (
        at.base_url
        or {"messages": ANTHROPIC_URL, "responses": OPENAI_URL, "chat": OPENAI_URL}[
            at.protocol
        ]
    )
    options: dict[str, Any] = {
        "base_url": model.target.address
        if model.target.base_url.rstrip("/") != usual
        else None,
        "api_key_env": model.target.key_variable
        if model.target.key_variable
        and model.target.key_variable not in at.key_variables
        else None,
        **as_texts(settings),
    }
    given = urlencode(
        {key: value for key, value in options.items() if value is not None}, safe=":/"
    )
    if given:
        return f"{provider}:{name}?{given}"
    return f"{provider}:{name}"


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A parsed `provider:model?options`."""

    prefix: str
    model: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])


def parse_spec(spec: str) -> ModelSpec:
    """Parse a model name. Raises `ConfigError` if its provider or an option is unknown or the model is missing."""
    name, _, query = spec.partition("?")
    prefix, colon, model = name.partition(":")
    prefix, model = prefix.strip().lower(), model.strip()
    if prefix not in PROVIDERS:
        raise ConfigError(_unknown_provider(name))
    model = model or PROVIDERS[prefix].default_model
    if not model:
        raise ConfigError(
            f'model: "{prefix}{colon}" names no model; write {prefix}:<model>'
        )
    options: dict[str, str] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in (*_OPTIONS, *SETTING_NAMES) and not key.startswith(INSIDE):
            known = ", ".join(sorted((*_OPTIONS, *SETTING_NAMES)))
            raise ConfigError(
                f'model: unknown option "{safe_line(key, 80)}"; known options: {known}'
            )
        options[key] = value
    return ModelSpec(prefix, model, options)


def receivers_of(spec: str) -> frozenset[str]:
    """Return the receivers of conversations with a model, or with several separated by commas.

    A receiver is a provider, or `openai at https://...` if the name has an address, with the key that it gets. An
    unknown provider is returned unchanged.
    """
    found = set[str]()
    for name in names_in(spec):
        named, _, query = name.partition("?")
        prefix, _, model = named.partition(":")
        receiver = prefix.strip().lower()
        if receiver in ("", "offline"):
            continue
        if is_ollama_cloud(receiver, model):
            receiver = "ollama.com, through ollama"
        options = dict(parse_qsl(query, keep_blank_values=True))
        if "base_url" in options:
            receiver += f" at {options['base_url']}"
        if "api_key_env" in options:
            receiver += f" with the key {options['api_key_env']}"
        found.add(receiver)
    return frozenset(found)


def _unknown_provider(name: str) -> str:
    shown = safe_line(name, 80)
    known = [*(f"{prefix}:" for prefix in PROVIDERS), "offline"]
    meant = _meant(name)
    if meant:
        known = [*known[:_SHOWN_PREFIXES], f"{len(known) - _SHOWN_PREFIXES} more"]
    text = f'model: no provider for "{shown}"; known prefixes: {", ".join(known)}'
    if meant:
        return f'{text}; did you mean "{safe_line(meant, 80)}"?'
    return text


def _meant(name: str) -> str:
    prefix, colon, rest = name.partition(":")
    if not colon and "/" in name:
        owner, _, model = name.partition("/")
        if owner in PROVIDERS:
            return f"{owner}:{model}"
        return f"openrouter:{name}"
    if colon:
        near = get_close_matches(prefix.lower(), PROVIDERS, n=1)
        if near:
            return f"{near[0]}:{rest}"
        return ""
    if name.lower().startswith(_OPEN_WEIGHTS):
        return f"ollama:{name}"
    if maker := identity_of(name).maker:
        return f"{_PREFIXES.get(maker, maker)}:{name}"
    return next(iter(get_close_matches(name.lower(), [*PROVIDERS, "offline"], n=1)), "")


_KEYS = ", ".join(
    variable for prefix in _TRIED_BY_KEY for variable in PROVIDERS[prefix].key_variables
)
_NO_KEY = (
    f"no model is named and no key is set (looked for MCPAGENT_MODEL, {_KEYS}); set one, or name a model that needs "
    'none: Agent("ollama:<model>"), or Agent("offline") for the rule-based stand-in'
)


def default_spec(environ: Mapping[str, str]) -> str:
    """Return MCPAGENT_MODEL, else the default model of the first provider with a key; "" if there is neither."""
    return environ.get("MCPAGENT_MODEL", "").strip() or _first_with_a_key(environ)


def _first_with_a_key(environ: Mapping[str, str]) -> str:
    for source in _sources(environ):
        for prefix in _TRIED_BY_KEY:
            if any(
                source.get(variable, "").strip()
                for variable in PROVIDERS[prefix].key_variables
            ):
                return f"{prefix}:{PROVIDERS[prefix].default_model}"
    return ""


def _sources(environ: Mapping[str, str]) -> tuple[Mapping[str, str], ...]:
    """Return the sources of keys in order. The environment comes first, so that the keyring is not read unless
    needed.
    """
    if isinstance(environ, EnvironmentWithKeys):
        return environ.environ, environ
    return (environ,)


def _build(
    spec: ModelSpec, environ: Mapping[str, str], http_client: httpx2.AsyncClient | None
) -> Model:
    provider = PROVIDERS[spec.prefix]
    base_url = _base_url(spec, provider, environ)
    variable, key = _key(spec, provider, environ, base_url)
    set_here = {
        name: text for name, text in spec.options.items() if name not in _OPTIONS
    }
    shared: dict[str, Any] = {
        "api_key": key,
        "base_url": base_url,
        "http_client": http_client,
        "max_retries": int(_number(spec.options, "max_retries", 0, 20, 2.0)),
        "settings": settings_of(set_here, "model: option"),
        "key_variable": variable,
        "capabilities": _capabilities(spec.options, provider),
    }
    from mcpagent.models.endpoints.learned import LearnedStore
    from mcpagent.utilities.filesystem.user_folders import cache_folder

    shared["traits"] = LearnedStore(cache_folder(environ) / "models")
    if provider.protocol != "chat" and "calls" in spec.options:
        raise ConfigError(
            f"model: option calls is not for {spec.prefix}:, whose models all can call"
        )
    shared["provider"] = spec.prefix
    if provider.protocol == "messages":
        from mcpagent.models.anthropic.messages_model import AnthropicModel

        return AnthropicModel(
            spec.model, **shared, client=_cloud(spec.prefix, provider.client)
        )
    if provider.protocol == "responses":
        from mcpagent.models.openai.openai_responses import OpenAIResponsesModel

        return OpenAIResponsesModel(spec.model, **shared)
    from mcpagent.models.openai.openai_chat import OpenAIChatModel

    shared |= {"hint": provider.hint, "calls": _calls(spec.options)}
    return OpenAIChatModel(spec.model, **shared)


def _cloud(prefix: str, client: str) -> Any:
    """Return the client for a cloud; None if `client` is "". It finds credentials where the cloud's tools store
    them.
    """
    if not client:
        return None
    import anthropic

    try:
        return getattr(anthropic, client)()
    except Exception as error:  # noqa: BLE001 - each cloud has its own: no region, no project, no package
        said = safe_line(str(error), 200)
        raise CredentialsError(
            f"model: {prefix}: {said}; see pip install 'anthropic[{prefix}]'"
        ) from None


def _calls(options: Mapping[str, str]) -> Literal["native", "prompted"] | None:
    match options.get("calls"):
        case None | "native" | "prompted" as calls:
            return calls
        case other:
            raise ConfigError(
                f'model: option calls is "{safe_line(other, 80)}"; write native or prompted'
            )


_DISCOVERIES: Mapping[str, tuple[Discovery, ...]] = {
    "messages": ("references", "append", "batches", "call_tool"),
    "responses": ("additional_tools", "append", "batches", "call_tool"),
    "chat": ("append", "batches", "call_tool"),
}


def _capabilities(
    options: Mapping[str, str], provider: Provider
) -> Capabilities | None:
    """Return the capabilities selected by `?discovery=`; None if the option is missing, so that the known ones
    apply.
    """
    if "discovery" not in options:
        return None
    allowed = _DISCOVERIES[provider.protocol]
    for discovery in allowed:
        if discovery == options["discovery"]:
            from mcpagent.models.capabilities import Capabilities

            return Capabilities(discovery, source="the model's ?discovery= option")
    shown = safe_line(options["discovery"], 80)
    raise ConfigError(
        f'model: option discovery is "{shown}"; write {" or ".join(allowed)}'
    )


def _base_url(
    spec: ModelSpec, provider: Provider, environ: Mapping[str, str]
) -> str | None:
    source, url = "base_url", spec.options.get("base_url")
    if url is None and provider.base_url_variable:
        source, url = (
            provider.base_url_variable,
            environ.get(provider.base_url_variable, "").strip() or None,
        )
        if url and source == "OLLAMA_HOST":
            url = ollama_url(url)
        if source == "AZURE_OPENAI_ENDPOINT":
            url = _azure_url(url)
    if not (url is not None):
        url = provider.base_url
    if url is not None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f'model: {source} "{safe_line(without_credentials(url), 80)}" is not an address; write http://host:port/v1'
            )
    if url is not None:
        return url.rstrip("/")
    return None


def _azure_url(endpoint: str | None) -> str:
    """Return the URL of the Azure resource, with the API version that all its models support."""
    if not endpoint:
        raise ConfigError(
            "model: AZURE_OPENAI_ENDPOINT is not set; export it as https://<resource>.openai.azure.com"
        )
    address = endpoint.rstrip("/").removesuffix("/openai")
    if "/openai/" in address:
        return address
    return f"{address}/openai/v1"


def ollama_url(host: str) -> str:
    """Return the URL of Ollama's server from OLLAMA_HOST.

    `ollama serve` binds to that host. It may lack port and scheme, and may be 0.0.0.0.
    """
    if "://" in host:
        url = host
    else:
        url = f"http://{host}"
    parts = urlsplit(url)
    name = "127.0.0.1" if parts.hostname in (None, "", "0.0.0.0") else parts.hostname  # noqa: S104 - not bound to
    port = parts.port or (443 if parts.scheme == "https" else 11434)
    return f"{parts.scheme}://{name}:{port}/v1"


def _key(
    spec: ModelSpec,
    provider: Provider,
    environ: Mapping[str, str],
    base_url: str | None,
) -> tuple[str, str | None]:
    """Return the variable of the key, and the key. A base URL in the model's options never gets the provider's usual
    key.
    """
    from mcpagent.models.transport.sdk_connection import usable_key

    named = spec.options.get("api_key_env")
    if named is not None:
        return named, usable_key(environ.get(named), named)
    if "base_url" in spec.options or not provider.key_variables:
        return "", None
    found = (
        name
        for source in _sources(environ)
        for name in provider.key_variables
        if name in source
    )
    variable = next(found, provider.key_variables[0])
    if variable in environ:
        return variable, usable_key(environ[variable], variable)
    if provider.needs_key and (
        spec.prefix == "azure" or not _is_elsewhere(provider, base_url)
    ):
        raise CredentialsError(
            f"{variable} is not set; export {variable}=<your key>, or keep it: mcpagent keys set {variable}, "
            f"or use another model (ollama:<model> runs here, offline needs nothing)"
        )
    return "", None


def _is_elsewhere(provider: Provider, base_url: str | None) -> bool:
    """Return whether a variable redirects the requests to another server, which may need no key."""
    return provider.base_url is None and base_url is not None


def _number(
    options: Mapping[str, str],
    name: str,
    lowest: float,
    highest: float,
    default: _Default,
) -> float | _Default:
    if name not in options:
        return default
    try:
        value = float(options[name])
    except ValueError:
        value = float("nan")
    if not lowest <= value <= highest:
        shown = safe_line(options[name], 80)
        raise ConfigError(
            f'model: option {name} is "{shown}"; write a number from {lowest:g} to {highest:g}'
        )
    return value
