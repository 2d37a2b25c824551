"""Requests that hardly any MCP server serves: small talk, general knowledge, and things done by hand or elsewhere.

The strength that a match needs is calibrated on `CALIBRATION`; what it is worth is told on `HELD_OUT` alone.
"""

CALIBRATION = """
what is the largest ocean on earth
nice to meet you
how was your weekend
tell me something funny
who invented the telephone
why do cats purr
thank you so much for everything
good evening everyone
explain how vaccines work
write a limerick about a grumpy sailor
what is the square root of 144
who directed Casablanca
how deep is the Mariana Trench
what is your favourite colour
when was the printing press invented
how do you say thank you in Japanese
how long should I boil pasta
what does ephemeral mean
hum a lullaby for the baby
why do leaves change colour
do you have feelings
could you give me some advice
I am so bored
what shall I wear to the wedding
get a reservation at a sushi bar for tonight
have flowers delivered to my mother
hail a cab to the train station
dim the lights in the bedroom
put on some classical music
trim the hedge
walk the dog before breakfast
vacuum the living room
bake a chocolate cake
iron my shirts
change the oil of my motorcycle
unlock the front door
get me seats for the musical next Friday
apply for a visa to Canada
pay the water bill
ask the bank for a student loan
help me with my tax return
book an appointment with the physiotherapist
get me a manicure
check my cholesterol
what is the freezing point of mercury
suggest a good detective novel
how far away is the moon
give me five synonyms for happy
who composed the Magic Flute
retell the story of Cinderella
how can I stop snoring
what is a good rhyme for silver
is lying ever justified
how many strings does a violin have
which currency is used in Denmark
how many ounces are in a pound
paint a portrait of my grandmother
what causes this cough
teach my parrot to talk
find an electrician for the kitchen
heat up the swimming pool
find me a cabin in the mountains for the holidays
lease a van for the move
watch the tennis final
bet on the second horse
give me a hint for this sudoku
repair the roof
restring my violin
order new contact lenses
sew a button on my coat
""".strip().splitlines()

HELD_OUT = """
what is the capital of France
hello how are you
tell me a joke
who won the world cup in 1998
what is the meaning of life
thanks, that was helpful
good morning
explain quantum entanglement to a ten year old
write a poem about autumn
what is 17 times 23
who wrote War and Peace
how tall is Mount Everest
do you like music
what is your name
what is the difference between a virus and a bacterium
when did the Roman Empire fall
translate good night into Spanish
how do I boil an egg
what does the word serendipity mean
sing me a song
why is the sky blue
are you a robot
can you help me
I feel sad today
what should I cook for dinner tonight
book a table at an Italian restaurant for four
order a large pizza with mushrooms
call me a taxi to the airport
turn the volume of my guitar amplifier down
play some jazz
mow the lawn
feed my cat at six
water the plants
knit a sweater
make me a cup of coffee
fold the laundry
wash my car
open the garage door
buy two tickets for the opera on Saturday
renew my passport
pay my electricity bill
refinance my mortgage
file my taxes
find me a dentist
schedule a haircut
measure my blood pressure
what is the boiling point of ethanol
recommend a novel by Jane Austen
how old is the universe
name three prime numbers
who painted the Mona Lisa
summarise the plot of Hamlet
give me tips to sleep better
what rhymes with orange
is it ethical to eat meat
how many legs does a spider have
what language is spoken in Brazil
convert 20 miles into kilometres
design a logo for my bakery
diagnose my rash
train a puppy
hire a plumber
lower the thermostat of the sauna
reserve a hotel in Lisbon
rent a bicycle
stream the football match
pick a lottery number
solve this crossword clue
sharpen the kitchen knives
tune my piano
""".strip().splitlines()
