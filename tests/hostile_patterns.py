"""Patterns that hold up backtracking engines, each with a text that makes them."""

A = "a" * 300
A_END = A + "!"
HOSTILE_PATTERNS = [
    (r"(a+)+$", A_END),
    (r"(a*)*$", A_END),
    (r"(a|a)*$", A_END),
    (r"(a|aa)+$", A_END),
    (r"(\w+\s?)*$", "Creates a new issue in the given repository and returns its number and address!"),
    (
        r"^([a-zA-Z0-9])(([\-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+[.]{1}(([a-z]{2,3})|([a-z]{2,3}[.]{1}[a-z]{2,3}))$",
        A,
    ),
    (r".*.*.*.*.*.*.*.*=x", A),
    (r"(.*?,){20}P", "a," * 150),
    (r"(x+x+)+y", "x" * 300),
    (r"(a+?)+?$", A_END),
    (r"([a-z]+)*\d", A_END),
    (r"^(\d+)*$", "1" * 300 + "x"),
    (r"((a+)+)+$", A_END),
    (r"(?=(a+)+b)a", A_END),
    (r"(?i)(A+)+$", A_END),
    (r"(a{1,100}){1,100}$", A_END),
    (r"((a{0,9}){0,9}){0,9}$x", A_END),
    (r"\s+$", " " * 50_000 + "x"),
    (r"(create|create_|creat|crea|c|.)*_issue$", "create_" * 40),
    (r"(?:a{0,65535}){0,65535}b", A_END),
    (r"(a+)\1+b", A_END),
    ("(" * 95 + "a" + ")" * 95, A_END),
    (r"(\p{L}+)+$", A_END),
]
