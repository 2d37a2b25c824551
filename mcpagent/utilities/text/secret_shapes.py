"""The formats of issuers' keys: one row each, with the page that documents it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

_WORD = r"(?:[A-Z]?[a-z]{1,15}|[A-Z]{2,14}|\d{1,4})"
"""Matches a word. Each text can be split into words in only one way; with two ways, a search would take exponential
time.
"""

_NO_WORDS = rf"(?!{_WORD}(?:[-_.]{_WORD})+(?![A-Za-z0-9_-]))"
"""Excludes joined words and numbers, such as `rotation-policy-of-2026`, which are not a key."""

_TOKEN = rf"{_NO_WORDS}[A-Za-z0-9_-]"
_START = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2}))"
)
"""Matches a position where a key may start: not after a letter or digit, except after an escape of JSON or of a URL."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The format of an issuer's keys: one of the space-separated `marks`, followed by text that matches `pattern`.

    `kept`: the mark is the name before a key and stays visible. `before`: the pattern of key characters that precede
    the mark. `source`: the issuer's page about its keys.
    """

    marks: str
    pattern: str
    source: str
    kept: bool = False
    before: str = ""


def begins_like_a_word(mark: str) -> bool:
    """Return whether a mark counts only at the start of a word; `storageAccountKey=` also counts inside one."""
    return mark[0].isalnum() and not mark.endswith("=")


SHAPES: tuple[Shape, ...] = (
    Shape(
        "sk-",
        rf"(?=[A-Za-z]{{0,60}}\d)[A-Za-z0-9]{{32,}}|(?:proj|svcacct|admin|None)-{_TOKEN}{{20,}}",
        "https://platform.openai.com/docs/api-reference/authentication",
    ),
    Shape(
        "sk-ant-",
        rf"{_TOKEN}{{20,}}",
        "https://docs.anthropic.com/en/api/overview",
    ),
    Shape(
        "sk-or-",
        r"(?:v\d-)?[0-9a-f]{20,}",
        "https://openrouter.ai/docs/api-reference/authentication",
    ),
    Shape(
        "sk-lf-",
        r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        "https://langfuse.com/docs/api",
    ),
    Shape(
        "lsv2_pt_ lsv2_sk_",
        r"[0-9a-f]{32}_[0-9a-f]{10}",
        "https://docs.smith.langchain.com/administration",
    ),
    Shape("gsk_", r"[A-Za-z0-9]{32,}", "https://console.groq.com/docs/quickstart"),
    Shape("xai-", r"[A-Za-z0-9]{40,}", "https://docs.x.ai/docs/tutorial"),
    Shape("r8_", r"[A-Za-z0-9]{30,}", "https://replicate.com/docs/topics/security"),
    Shape("pplx-", r"[A-Za-z0-9]{40,}", "https://docs.perplexity.ai/getting-started"),
    Shape("csk-", r"[a-z0-9]{40,}", "https://inference-docs.cerebras.ai/quickstart"),
    Shape("nvapi-", rf"{_TOKEN}{{28,}}", "https://docs.api.nvidia.com/nim/reference"),
    Shape(
        "tvly-",
        r"(?:dev-|prod-)?[A-Za-z0-9]{28,}",
        "https://docs.tavily.com/documentation/quickstart",
    ),
    Shape("fc-", r"[0-9a-f]{32}", "https://docs.firecrawl.dev/introduction"),
    Shape(
        "hf_ api_org_",
        r"[A-Za-z0-9]{30,}",
        "https://huggingface.co/docs/hub/security-tokens",
    ),
    Shape(
        "ghp_ gho_ ghu_ ghs_ ghr_",
        r"[A-Za-z0-9]{20,}",
        "https://github.blog/engineering/behind-githubs-new-authentication-token-formats/",
    ),
    Shape(
        "github_pat_",
        r"[A-Za-z0-9]{22}[A-Za-z0-9_]*",
        "https://github.blog/engineering/behind-githubs-new-authentication-token-formats/",
    ),
    Shape(
        "glpat- gldt- glrt- glrtr- glptt- glcbt- glft- glimt- glagent- glsoat- gloas- glffct-",
        rf"{_TOKEN}{{20,}}(?:\.[0-9a-z]{{2}}\.[0-9a-z]{{9}})?",
        "https://docs.gitlab.com/security/tokens/#token-prefixes",
    ),
    Shape(
        "xoxa- xoxb- xoxc- xoxe- xoxe.xox xoxp- xoxr- xoxs-",
        rf"{_NO_WORDS}[A-Za-z0-9-]{{10,}}",
        "https://docs.slack.dev/authentication/tokens",
    ),
    Shape(
        "xoxd-",
        r"[A-Za-z0-9%+/=-]{60,}",
        "https://slack.engineering/catching-compromised-cookies/",
    ),
    Shape(
        "xapp-",
        r"\d-[A-Za-z0-9-]{20,}",
        "https://docs.slack.dev/authentication/tokens",
    ),
    Shape(
        "hooks.slack.com/services/ hooks.slack.com/workflows/ hooks.slack.com/triggers/",
        r"[A-Za-z0-9]+/[A-Za-z0-9]+/[A-Za-z0-9/]{16,}",
        "https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks",
        kept=True,
    ),
    Shape(
        "discord.com/api/webhooks/ discordapp.com/api/webhooks/",
        r"\d{17,20}/[A-Za-z0-9_-]{60,}",
        "https://docs.discord.com/developers/resources/webhook",
        kept=True,
    ),
    Shape(
        "webhook.office.com/webhookb2/",
        r"[0-9a-f-]{36}@[0-9a-f-]{36}/IncomingWebhook/[0-9a-f]{32}/[0-9a-f-]{36}[A-Za-z0-9/_-]*",
        "https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors",
        kept=True,
    ),
    Shape(
        ":AA",
        r"[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])",
        "https://core.telegram.org/bots/api#authorizing-your-bot",
        before=r"(?<!\d)\d{8,10}",
    ),
    Shape(
        "AKIA ASIA ABIA ACCA",
        r"[A-Z0-9]{16}(?![A-Za-z0-9])",
        "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html#identifiers-unique-ids",
    ),
    Shape(
        "ABSKQmVkcm9ja0FQSUtleS",
        r"[A-Za-z0-9+/=]{40,}",
        "https://docs.aws.amazon.com/bedrock/latest/userguide/api-keys.html",
    ),
    Shape(
        "AIza",
        r"[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])",
        "https://cloud.google.com/docs/authentication/api-keys",
    ),
    Shape(
        "ya29.",
        rf"{_TOKEN}{{20,}}",
        "https://developers.google.com/identity/protocols/oauth2#size",
    ),
    Shape(
        "GOCSPX-",
        rf"{_TOKEN}{{28}}",
        "https://developers.google.com/identity/protocols/oauth2/web-server",
    ),
    Shape(
        "1//0",
        rf"{_TOKEN}{{40,}}",
        "https://developers.google.com/identity/protocols/oauth2#size",
    ),
    Shape(
        "AccountKey= SharedAccessKey=",
        r"[A-Za-z0-9+/]{43}(?:[A-Za-z0-9+/]{43}=)?=",
        "https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string",
        kept=True,
    ),
    Shape(
        "?sig= &sig=",
        r"[A-Za-z0-9%+/]{43,70}(?:%3[Dd]|=)",
        "https://learn.microsoft.com/azure/storage/common/storage-sas-overview",
        kept=True,
    ),
    Shape(
        "npm_",
        r"[A-Za-z0-9]{30,}",
        "https://github.blog/security/supply-chain-security/npm-security-update/",
    ),
    Shape(
        "pypi-AgE",
        rf"{_TOKEN}{{28,}}",
        "https://pypi.org/help/#apitoken",
    ),
    Shape(
        "rubygems_",
        r"[0-9a-f]{48}",
        "https://guides.rubygems.org/api-key-scopes/",
    ),
    Shape(
        "dckr_pat_ dckr_oat_",
        rf"{_TOKEN}{{27,}}",
        "https://docs.docker.com/security/access-tokens/",
    ),
    Shape(
        "sk_live_ rk_live_ pk_live_ sk_test_ rk_test_ pk_test_",
        r"[A-Za-z0-9]{16,}",
        "https://docs.stripe.com/keys",
    ),
    Shape("whsec_", r"[A-Za-z0-9+/]{32,}=*", "https://docs.stripe.com/webhooks"),
    Shape(
        "SG.",
        r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{32,}",
        "https://www.twilio.com/docs/sendgrid/ui/account-and-settings/api-keys",
    ),
    Shape(
        "SK",
        r"[0-9a-f]{32}(?![A-Za-z0-9])",
        "https://www.twilio.com/docs/glossary/what-is-a-sid",
    ),
    Shape(
        "xkeysib- xsmtpsib-",
        r"[0-9a-f]{64}-[A-Za-z0-9]{16}",
        "https://developers.brevo.com/docs/getting-started",
    ),
    Shape(
        "dop_v1_ doo_v1_ dor_v1_",
        r"[A-Za-z0-9]{32,}",
        "https://docs.digitalocean.com/reference/api/create-personal-access-token/",
    ),
    Shape(
        "shpat_ shpca_ shppa_ shpss_ shpua_",
        r"[0-9A-Fa-f]{32}",
        "https://shopify.dev/docs/apps/build/authentication-authorization",
    ),
    Shape(
        "dapi",
        r"[0-9a-f]{32}(?:-\d)?(?![A-Za-z0-9])",
        "https://docs.databricks.com/dev-tools/auth/pat.html",
    ),
    Shape(
        "lin_api_ lin_oauth_",
        r"[A-Za-z0-9]{32,}",
        "https://linear.app/developers/graphql",
    ),
    Shape(
        "ntn_",
        r"[A-Za-z0-9]{30,}",
        "https://developers.notion.com/page/changelog#september-11-2024",
    ),
    Shape(
        "secret_",
        r"[A-Za-z0-9]{43}(?![A-Za-z0-9])",
        "https://developers.notion.com/page/changelog#september-11-2024",
    ),
    Shape(
        "sbp_",
        r"[0-9a-f]{40}",
        "https://supabase.com/docs/reference/api/introduction",
    ),
    Shape(
        "sb_secret_",
        rf"{_TOKEN}{{20,}}",
        "https://supabase.com/docs/guides/api/api-keys",
    ),
    Shape(
        "ATATT3 ATCTT3",
        r"[A-Za-z0-9_=-]{60,}",
        "https://developer.atlassian.com/cloud/confluence/basic-auth-for-rest-apis/",
    ),
    Shape("figd_", rf"{_TOKEN}{{40,}}", "https://developers.figma.com/docs/rest-api/"),
    Shape(
        "glsa_",
        r"[A-Za-z0-9]{32}_[0-9a-f]{8}",
        "https://grafana.com/docs/grafana/latest/administration/service-accounts/",
    ),
    Shape("sntryu_", r"[0-9a-f]{64}", "https://docs.sentry.io/account/auth-tokens/"),
    Shape(
        "sntrys_eyJ",
        rf"{_NO_WORDS}[A-Za-z0-9+/=_-]{{40,}}",
        "https://docs.sentry.io/account/auth-tokens/",
    ),
    Shape(
        "NRAK-",
        r"[A-Z0-9]{27}",
        "https://docs.newrelic.com/docs/apis/intro-apis/new-relic-api-keys/",
    ),
    Shape(
        "PMAK-",
        r"[0-9a-f]{24}-[0-9a-f]{34}",
        "https://learning.postman.com/docs/developer/postman-api/authentication/",
    ),
    Shape(
        "hvs. hvb. hvr.",
        rf"{_TOKEN}{{24,}}",
        "https://developer.hashicorp.com/vault/docs/concepts/tokens#token-prefixes",
    ),
    Shape(
        "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.",
        r"(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}",
        "https://docs.doppler.com/reference/auth-token-formats",
    ),
    Shape(
        "pscale_tkn_ pscale_pw_ pscale_oauth_",
        rf"{_NO_WORDS}[A-Za-z0-9_.=-]{{32,64}}",
        "https://planetscale.com/docs/api/reference/getting-started",
    ),
    Shape("AGE-SECRET-KEY-1", r"[0-9A-Z]{58}", "https://age-encryption.org/v1"),
    Shape(
        "eyJ",
        r"[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
        "https://www.rfc-editor.org/rfc/rfc7519#section-3",
    ),
    Shape(
        "://",
        r"""[^\s/:@"']{1,100}:[^\s/@"']{1,200}(?=@)""",
        "https://www.rfc-editor.org/rfc/rfc3986#section-3.2.1",
        kept=True,
    ),
    Shape(
        "-----BEGIN",
        r" [A-Z ]{0,20}PRIVATE KEY-----(?:[A-Za-z0-9+/=\s\\:,.]|-(?!----)){0,20000}"
        r"-----END [A-Z ]{0,20}PRIVATE KEY-----",
        "https://www.rfc-editor.org/rfc/rfc7468#section-10",
    ),
)

LONGEST_BEFORE = 10
"""Maximum number of characters of a key before its mark."""

MARKS = tuple(dict.fromkeys(mark for shape in SHAPES for mark in shape.marks.split()))


@cache
def shape_pattern(shape: Shape) -> re.Pattern[str]:
    """Return a pattern that matches the whole key. Group 1 is the mark if it stays visible (`kept`), else empty."""
    marks = "|".join(map(re.escape, shape.marks.split()))
    start = shape.before
    if begins_like_a_word(shape.marks):
        start = _START
    if shape.kept:
        return re.compile(f"({start}(?:{marks}))(?:{shape.pattern})")
    return re.compile(f"(){start}(?:{marks})(?:{shape.pattern})")


def _one_of(marks: list[str]) -> str:
    longest_first = sorted(marks, key=len, reverse=True)
    return "|".join(map(re.escape, longest_first))


def _beginnings(marks: list[str]) -> list[str]:
    return list({mark[:end] for mark in marks for end in range(1, len(mark))})


_WORDLIKE = [mark for mark in MARKS if begins_like_a_word(mark)]
_OTHERS = [mark for mark in MARKS if not begins_like_a_word(mark)]


@cache
def any_mark() -> re.Pattern[str]:
    """Return a pattern that matches any issuer's mark."""
    return re.compile(rf"{_START}(?:{_one_of(_WORDLIKE)})|(?:{_one_of(_OTHERS)})")


@cache
def mark_begun() -> re.Pattern[str]:
    """Return a pattern that matches an incomplete mark at the end of a text.

    A single letter counts only at the start of a word.
    """
    return re.compile(
        rf"{_START}(?:{_one_of(_beginnings(_WORDLIKE))})\Z"
        rf"|(?:(?<![A-Za-z0-9])|(?=..|[^A-Za-z0-9]))(?:{_one_of(_beginnings(_OTHERS))})\Z"
    )
