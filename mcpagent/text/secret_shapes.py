"""Redact secrets in text: known values, and values with the shape of an issuer's keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote

from mcpagent.text.known_secrets import REDACTED, SHORTEST

_PLACE = re.compile(r"^(OLD)?PWD$|(AUTHORITY|_SOCK|_FILE|_PATH|_DIR|_HOME|_CREDENTIALS|_CONFIG)$")
_PATH = re.compile(r"[A-Za-z]:[\\/]|~?/")
_NAME = re.compile(r"key|token|secret|pass|auth|cred|pwd|cookie|bearer|jwt|(?<![a-z])pat(?![a-z])", re.IGNORECASE)

_PREFIXES = ("hf", "npm", "dop_v1", "gsk", "pypi", "r8", "nvapi", "tvly", "lin_api", "ntn", "secret")
_KEY_BEGINS, _KEY_ENDS = r"-----BEGIN\ [A-Z ]{0,20}PRIVATE\ KEY-----", r"-----END\ [A-Z ]{0,20}PRIVATE\ KEY-----"

_SHAPES: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (marks, re.compile(shape))
    for marks, shape in (
        (("sk-",), r"\bsk-[A-Za-z0-9_-]{16,}"),  # OpenAI, Anthropic, OpenRouter
        (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"\bgh[pousr]_[A-Za-z0-9]{20,}"),  # GitHub
        (("github_pat_",), r"\bgithub_pat_[A-Za-z0-9_]{20,}"),
        (("glpat-",), r"\bglpat-[A-Za-z0-9_-]{16,}"),  # GitLab
        (("xox",), r"\bxox[abeprs]-[A-Za-z0-9-]{10,}"),  # Slack
        (("xapp-",), r"\bxapp-[A-Za-z0-9-]{20,}"),
        (("AKIA", "ASIA"), r"\bA[KS]IA[A-Z0-9]{16}\b"),  # AWS
        (("AIza",), r"\bAIza[A-Za-z0-9_-]{30,}"),  # Google
        (("ya29.",), r"\bya29\.[A-Za-z0-9_-]{20,}"),
        (
            tuple(f"{prefix}{end}" for prefix in _PREFIXES for end in "-_"),
            rf"\b(?:{'|'.join(_PREFIXES)})_?[-_][A-Za-z0-9_-]{{20,}}",
        ),
        (("k_live", "k_test"), r"\b[srp]k_(?:live|test)_[A-Za-z0-9]{16,}"),  # Stripe
        (("SG.",), r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),  # SendGrid
        (("eyJ",), r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),  # JSON Web Tokens
        (("Bearer ",), r"(?<=Bearer )[A-Za-z0-9._~+/=-]{16,}"),
        (("://",), r"""(?<=://)[^\s/:@"']{1,100}:[^\s/@"']{1,200}(?=@)"""),  # user:password in an address
        (("-----BEGIN ",), rf"{_KEY_BEGINS}[A-Za-z0-9+/=\s\\:,.-]{{0,20000}}?{_KEY_ENDS}"),
    )
)
"""What each shape has in it, and the shape: a text without the one is not searched for the other, which takes long."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PASSWORD = re.compile(
    r".*(?:password|passwd|passphrase|passcode|secret)s?|.*(?:pwd|pword|passw)|pw|mnemonic|(?!(?:ask|by|com|encom|tres|sur|over|under)pass$).*pass"
)
_KINDS = (
    "api|access|auth|private|secret|account|master|signing|encryption|license|app|client|shared|admin|service|session"
)
_TOKEN = re.compile(rf".*token|(?:.*(?:{_KINDS}|pass))keys?|jwt|pat|bearer|authorization|cookie")
_PERHAPS = re.compile(
    r"keys?|.*tokens?|.*apikeys?|o?auth|authentication|authorization|creds?|credentials?|cookies?|bearer|jwt|pat|sig"
)
_OF_SECRETS = re.compile(f"{_KINDS}|x")
_OF_DATA = re.compile(
    "primary|partition|sort|foreign|hot|public|publishable|range|hash|composite|unique|cache|routing|row|column|"
    "group|index|merge|join|distribution|cluster|clustering|shard|object|natural|surrogate|idempotency|issue|"
    "project|dedup|order"
)
_OF_COUNTS = re.compile("max|maximum|min|minimum|num|total|input|output|context|prompt|completion|thinking")
_QUALIFIERS = re.compile("base|b64|value|string|raw|text|prod|production|dev|test|staging|live|default|main|old|new")
_SWITCHES = re.compile("no|not|skip|disable|without|allow|ignore|require|requires|enable|disallow")
_FAILURES = re.compile("error|exception|interrupt")
_OTHERS = re.compile(
    "type|types|name|names|file|files|filename|path|paths|dir|dirs|directory|folder|store|mode|modes|provider|"
    "providers|endpoint|url|urls|uri|host|hosts|hostname|port|space|column|columns|field|fields|id|ids|limit|"
    "limits|ttl|manager|service|region|through|passthrough|length|size|count|max|min|budget|window|timeout|"
    "seconds|minutes|ms|days|expiry|expires|expiration|lifetime|age|format|prefix|suffix|scheme|"
    "method|methods|policy|algorithm|alg|level|enabled|disabled|required|optional|scope|scopes|audience|issuer|"
    "realm|domain|user|username|email|account|label|version|rotation|refresh|strategy|backend|plugin|handler|"
    "class|module|command|cmd|env|var|variable|source|location|socket|sock|home|config|configuration|kind|"
    "encoding|pattern|regex|order|family|usage|bits|stdin|fd|prompt|vault|ring|server|cache|db|database|table|"
    "bucket|project|group|role|schema|status|check|rules|commit|sha|rev|revision|ref|digest|checksum|image|tag|"
    "branch|model|uuid|arn|author|authors|authority|title|description|hint|protocol|address|query|template|"
    "workspace|from|info|metadata"
)
"""Last words of a name, by which it tells of something about a secret, or of another thing."""

_ELSEWHERE = re.compile(
    r"(?:~|\.{1,2})?/|[A-Za-z]:[\\/]|[a-z][a-z0-9+.-]{0,20}://|\$[({]|\$[A-Z_][A-Z0-9_]*(?![a-z])|`|%\w+%$"
)
"""A path, an address, or what a shell replaces."""

_MODE = re.compile(
    r"(?i:true|false|required|optional|auto|automatic|default|enabled?|disabled?|bearer|basic|digest|kerberos\d?|ntlm|ldaps?|"
    r"saml\d?|oauth[\d.]*|openid|oidc|token|api[-_]?key|password|secret|prompt|stdin|interactive|keyring|keychain|environment|"
    r"browser|device|managed|system|always|never|public|private|anonymous|inherit|native|external|internal|latest|missing|"
    r"strict|string|number|boolean|object|undefined|unknown)"
)
_EXTENSIONS = "json|ya?ml|toml|txt|pem|key|crt|cer|der|p12|pfx|pub|env|ini|cfg|conf|xml|csv|db|py|js|jks|gpg|asc"
_FILE = re.compile(
    rf"[\w./\\-]+\.(?:{_EXTENSIONS}|jwks?|keystore|kdbx|properties|htpasswd)|id_(?:rsa|dsa|ecdsa|ed25519)\w*"
    r"|(?:[\w-]+\.)+(?:com|org|net|io|dev|local|example|internal|cloud|app|ai|eu)(?::\d+)?"
)
_VARIABLE = re.compile(r"(?:env:)?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_CAMEL = re.compile(r"[A-Z]*|[a-z]*|[A-Za-z]?[a-z]{2,}(?:[A-Z][a-z]+)*")
_TOKEN_LIKE = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_\-+=.]*")
_ENDING = re.compile(r"\.[a-z]{2,4}$")  # of a file
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_WORDLIKE = re.compile(r"(?:[A-Z]?[a-z]*|[A-Z]*)\d{0,4}|v?\d{1,8}[a-z]{0,12}|\d+(?:[a-z]\d{1,2})?|\d{8}T\d{4,6}Z?")

Redact: TypeAlias = Callable[[str], str]


_STEP = 200_000

_MARKS = tuple(dict.fromkeys(mark for marks, _ in _SHAPES for mark in marks))


def may_have_shapes(text: str) -> bool:
    """Return whether the text may contain a key; a quick check, which also works for JSON text."""
    for mark in _MARKS:
        if mark in text:
            return True
    return False


def without_shapes(text: str) -> str:
    """Return the text with everything redacted that has the shape of a key, of any issuer."""
    if not may_have_shapes(text):
        return text
    for marks, shape in _SHAPES:
        if any(mark in text for mark in marks):
            text = shape.sub(REDACTED, text)
    return text


def without_shapes_in_steps(text: str) -> str:
    """Return `without_shapes` of the text; process a long text in pieces, so that a worker thread lets others run.

    It is cut at positions that no key spans: before a quotation mark, or at a line end if it has no private key block.
    """
    pieces, start, has_blocks = list[str](), 0, "-----BEGIN " in text
    while len(text) - start > 2 * _STEP:
        end = text.rfind('"', start + _STEP, start + 2 * _STEP)
        end = end if end > 0 or has_blocks else text.rfind("\n", start + _STEP, start + 2 * _STEP)
        if end <= 0:
            break
        pieces.append(without_shapes(text[start:end]))
        start = end
    return "".join([*pieces, without_shapes(text[start:])]) if pieces else without_shapes(text)


def without_credentials(url: str) -> str:
    """Return the address without the user and password that it may contain."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}" if separator else url


def names_a_secret(name: str) -> bool:
    """Return whether a variable, header or option of this name usually holds a secret."""
    return bool(_NAME.search(name))


def sureness(name: str) -> int:
    """Return how surely a name denotes a secret: 3 password, 2 token or key, 1 perhaps, 0 no, -1 something else.

    Stricter than `names_a_secret`: whole words count, so KEYSPACE, `--primary-key` and `--token-type` are no secrets.
    """
    words = [word.lower() for word in _WORDS.findall(name[:200])]
    while words and (words[-1].isdecimal() or _QUALIFIERS.fullmatch(words[-1])):
        words.pop()
    last, before = words[-1] if words else "", words[-2] if words[1:] else ""
    if last in ("id", "ids") and before in ("secret", "session"):
        return 1
    if _SWITCHES.fullmatch(words[0] if words else "") or _OTHERS.fullmatch(last) or words in (["pwd"], ["oldpwd"]):
        return -1
    is_key = last in ("key", "keys")
    if (is_key and _OF_DATA.fullmatch(before)) or (last == "tokens" and _OF_COUNTS.fullmatch(before)):
        return -1
    if any(map(_PASSWORD.fullmatch, words)):
        return 1 if _FAILURES.fullmatch(last) else 3
    if _TOKEN.fullmatch(last) or (is_key and _OF_SECRETS.fullmatch(before)):
        return 2
    is_perhaps = any(map(_PERHAPS.fullmatch, words))
    return is_perhaps * (2 if re.match(r"(?:-?H)?X-", name, re.IGNORECASE) else 1)


def is_secret_value(name: str, value: str) -> bool:
    """Return whether a value is a secret, judged by its shape and by its name's `sureness`."""
    sure, is_word = sureness(name), not re.search(r"\s", value)
    if is_word and "://" not in value and without_shapes(value) != value:
        return True
    if sure < 0 or len(value) < SHORTEST or _ELSEWHERE.match(value):
        return False
    if sure >= 2:
        is_other = any(pattern.fullmatch(value) for pattern in (_MODE, _FILE))
        is_other = is_other or (_VARIABLE.fullmatch(value) is not None and names_a_secret(value))
        return not is_other and not (value.count("/") > 1 and _is_wordlike(value))
    return is_word and (looks_random(value) or (sure == 1 and _looks_like_a_key(value)))


def looks_random(value: str, least: int = 20) -> bool:
    """Return whether the value looks random and has at least this length.

    It mixes letters and digits as in no word, version, number, UUID, path or address.
    """
    if (
        len(value) < least
        or not re.fullmatch(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_\-+=.]*", value)
        or _UUID.fullmatch(value)
        or _ENDING.search(value)
    ):
        return False
    pieces = re.split(r"[-_+=.]+", value)
    return sum(len(piece) for piece in pieces if not _WORDLIKE.fullmatch(piece)) >= least // 2


def _is_wordlike(value: str) -> bool:
    return all(map(_WORDLIKE.fullmatch, re.split(r"[-_.:/]", value)))


def _looks_like_a_key(value: str) -> bool:
    """Return whether the value has letters with digits, inner capitals, eight digits, or signs unusual in names."""
    if value.isdecimal() or value.startswith(("{", "[")):
        return value.isdecimal() and len(value) >= 8
    if "," in value:
        return any(looks_random(part, 10) for part in value.split(","))
    if "/" in value and (value.count("/") > 1 or min(map(len, value.split("/"))) > 2) and _is_wordlike(value):
        return False
    if any(pattern.fullmatch(value) for pattern in (_MODE, _FILE, _VARIABLE)):
        return False
    if re.search(r"\d", value) and re.search(r"[^\W\d_]", value):
        return True
    return not all(map(_CAMEL.fullmatch, re.split(r"[-_.,:/@+]+", value)))


def redactor(values: Iterable[str]) -> Redact:
    """Return a function that redacts these values, also JSON- and URL-encoded, and everything shaped like a key."""
    without_values = value_redactor(values)
    return lambda text: without_shapes(without_values(text))


def value_redactor(values: Iterable[str]) -> Redact:
    """Return a function that redacts these values only, also in their JSON and URL encodings."""
    spellings = {
        spelling
        for value in values
        if len(value) >= SHORTEST
        for spelling in (value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], quote(value, ""))
    }
    # The longest first: one secret may begin with another.
    known = sorted((item for item in spellings if item not in REDACTED), key=lambda item: (-len(item), item))

    def redact(text: str) -> str:
        for spelling in known:
            text = text.replace(spelling, REDACTED)
        return text

    return redact


def secrets_in(environ: Mapping[str, str]) -> list[str]:
    """Return the values of environment variables whose names denote secrets.

    Paths are excluded if the name denotes a location: PWD is a folder, SSH_AUTH_SOCK a socket, and redacting them would
    remove them from every message about files.
    """
    return [
        value
        for name, value in environ.items()
        if names_a_secret(name) and len(value) >= SHORTEST and not (_PLACE.search(name) and _PATH.match(value))
    ]


DEEPEST_TEXT = 100


def redacted(data: Any, redact: Redact) -> Any:
    """Return JSON data with every text in it redacted, keys too."""
    if isinstance(data, str):
        return redact(data)
    if isinstance(data, Mapping):
        return {redacted(key, redact): redacted(value, redact) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [redacted(value, redact) for value in data]
    return data


def texts_in(data: Any, depth: int = 0) -> Iterator[str]:
    """Yield every text in JSON data, keys too, down to a hundred levels."""
    if isinstance(data, str):
        yield data
    elif depth <= DEEPEST_TEXT and isinstance(data, Mapping):
        for key, value in data.items():
            yield str(key)
            yield from texts_in(value, depth + 1)
    elif depth <= DEEPEST_TEXT and isinstance(data, list):
        for value in data:
            yield from texts_in(value, depth + 1)
