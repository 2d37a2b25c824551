"""Sixty requests for the offline stand-in that no rule was written for.

They were written before the change of the rules that they judge, and were run once after it: 56 right, 3 missed, 1
counted as wrong because the table expected the date of one day. Do not tune a rule to one of them. When the rules
change, replace the table and write down its first result.
"""

from __future__ import annotations

from tests.offline.requests import Case, Expected

_ROWS: tuple[tuple[str, Expected, str], ...] = (
    ("what's the time in Sydney?", "answer", r"Australia/Sydney"),
    ("what time is it in Buenos Aires right now", "answer", r"Buenos_Aires"),
    ("current time in Nairobi please", "answer", r"Africa/Nairobi"),
    ("what is 3.5 times 12?", "answer", r"\b42\b"),
    ("144 / 12", "answer", r"\b12\b"),
    ("what is 20% of 450?", "answer", r"\b90\b"),
    ("2 to the power of 16", "answer", r"65536|65,536"),
    ("convert 72 inches to feet", "answer", r"\b6 f"),
    ("how many grams are in 2 pounds?", "answer", r"907\.18"),
    ("25 celsius in kelvin", "answer", r"298\.15"),
    ("convert 3 liters to gallons", "answer", r"0\.79"),
    ("what is the capital of Kenya?", "answer", r"Nairobi"),
    ("what currency does Japan use?", "answer", r"(?i)yen"),
    ("which country has Ottawa as its capital?", "answer", r"Canada"),
    ("population of Brazil", "answer", r"million"),
    ("how far apart are Berlin and Vienna?", "answer", r"52\d km|km"),
    ("is 2100 a leap year?", "answer", r"2100 is not"),
    ("how many days from 2026-06-01 to 2026-06-30?", "answer", r"29 days"),
    ("what day of the week was 2000-01-01?", "answer", r"Saturday"),
    ("what date is 45 days from today?", "answer", r"2027-01-06"),
    ("when is the next Friday?", "answer", r"The next Friday after \S+ is 20\d\d-\d\d-\d\d"),
    ("how old is someone born on 1985-04-12?", "answer", r"\d\d years"),
    ("show me the calendar for February 2027", "answer", r"February 2027|2027"),
    ("is 561 a prime number?", "answer", r"561 is not|561 = |not a prime"),
    ("prime factors of 360", "answer", r"2.*3.*5"),
    ("first 10 fibonacci numbers", "answer", r"34"),
    ("greatest common divisor of 48 and 180", "answer", r"\b12\b"),
    ("average of 3, 7 and 20", "answer", r"average: 10\b"),
    ("42 in binary", "answer", r"101010"),
    ("convert 255 to hexadecimal", "answer", r"(?i)\bff\b"),
    ("1999 as a roman numeral", "answer", r"MCMXCIX"),
    ("spell 512 in words", "answer", r"five hundred"),
    ('reverse "stationery"', "answer", r"yrenoitats"),
    ('how many words are in "the quick brown fox"?', "answer", r"words: 4"),
    ('is "racecar" a palindrome?', "answer", r"is a palindrome"),
    ('write "sos help" in morse code', "answer", r"\.\.\. --- \.\.\."),
    ('md5 hash of "test"', "answer", r"098f6bcd4621d373cade4e832627b4f6"),
    ('decode "Z29vZCBkYXk=" from base64', "answer", r"good day"),
    ("generate a uuid", "answer", r"[0-9a-f]{8}-[0-9a-f]{4}"),
    ("toss a coin", "answer", r"^(heads|tails)"),
    ("roll two dice", "answer", r"\d"),
    ("what colour is #ff8800?", "answer", r"(?i)255|orange"),
    ("list the files in this folder", "answer", r"notes\.txt"),
    ("what does notes.txt say?", "answer", r"water the plants"),
    ("how much disk space is free?", "answer", r"(?i)free"),
    ("what is the monthly payment on a 200000 loan at 4% over 30 years?", "answer", r"954\.8"),
    ("split a bill of 84 dollars between 4 people with a 10% tip", "answer", r"23\.1"),
    ("by how many percent did the price rise from 80 to 100?", "answer", r"25 ?%"),
    ("if it's 3pm in London, what time is it in Tokyo?", "answer", r"2[23]:00|00:00"),
    ("what is the time difference between Madrid and Tokyo?", "answer", r"[78] hours"),
    ("it is 10:30 in Paris; what time is that in New York?", "answer", r"0[45]:30"),
    ("erase everything in my notes", "nothing", r""),
    ("wipe all my todos", "nothing", r""),
    ("remove every note I have", "nothing", r""),
    ("convert 50 to miles", "nothing", r""),
    ("how much is 20 pounds?", "nothing", r""),
    ("translate 'good morning' to Spanish", "nothing", r""),
    ("order a pizza for tonight", "nothing", r""),
    ("what was the score of last night's game?", "nothing", r""),
    ("what is 5 km plus 3 miles in yards?", "nothing", r""),
)


HELD_OUT = tuple(Case((prompt,), expected, says, "held out") for prompt, expected, says in _ROWS)
