"""The plots of the embedded stories: paragraphs of sentences, with several wordings for each sentence.

`pocket.story` fills the slots in braces. `{hero}` and `{friend}` are names; `{hero_he}`, `{hero_him}` and `{hero_his}` are
pronouns, and `{Hero_he}` is capitalized. If `{look}` is "red" and `{toy}` is "ball", `{a_toy}` is "a red ball".
"""

Sentence = tuple[str, ...]
Paragraph = tuple[Sentence, ...]

OPENINGS: Paragraph = (
    (
        "Once upon a time, there was {a_hero} named {hero}.",
        "One day, {a_hero} named {hero} woke up early.",
        "There once was {a_hero} called {hero}.",
        "Once there was {a_hero}. {Hero_his} name was {hero}.",
    ),
    (
        "{hero} lived near {place} with {hero_his} {parent}.",
        "{hero} liked to play at {place} all day.",
        "Every day, {hero} went to {place} to look for something new.",
    ),
    (
        "{Hero_he} had a friend named {friend}, who was a {friend_kind}.",
        "{Hero_his} best friend was a {friend_kind} named {friend}.",
    ),
)

ENDINGS: Sentence = (
    "{hero} went home with a big smile.",
    "That night, {hero} told {hero_his} {parent} all about it.",
    "From that day on, {hero} and {friend} were best friends.",
    "{hero} and {friend} laughed and played until the sun went down.",
    "{hero} was very happy, and {friend} was happy too.",
    "They all lived happily ever after.",
)

LOST: tuple[Paragraph, ...] = (
    (
        (
            "One {weather} {time}, {hero} took {hero_his} {look} {toy} to {place}.",
            "{hero} had {a_toy}, and {hero_he} loved it very much.",
        ),
        ("But when it was time to go, the {toy} was gone!", "Then {hero} looked down. The {toy} was not there!"),
        ("{hero} looked and looked, but {hero_he} could not find it.", "{Hero_he} felt sad and began to cry."),
    ),
    (
        ('{friend} saw {hero} and asked, "Why are you sad?"', '{friend} came by and said, "What is wrong, {hero}?"'),
        ('"I lost my {toy}," said {hero}. "Can you help me?"', '"I can not find my {look} {toy}," {hero} said.'),
        (
            '"Do not worry," said {friend}. "We will look for it together."',
            '"I will help you," said {friend}, and took {hero_his} hand.',
        ),
        ("They looked at {place} and they looked at {other_place}.", "They looked high and low."),
        ("At last, {friend} found the {toy} {hiding}.", "Soon {friend} called out. The {toy} was {hiding}!"),
        ('"Thank you, {friend}!" said {hero}.', "{hero} gave {friend} a big hug."),
    ),
)

SHARE: tuple[Paragraph, ...] = (
    (
        ("One day, {hero} got {a_toy} from {hero_his} {parent}.", "{Hero_his} {parent} gave {hero_him} {a_toy}."),
        (
            '{friend} saw the {toy} and asked, "Can I play with it too?"',
            '"What a nice {toy}!" said {friend}. "May I have a turn?"',
        ),
        ('"No!" said {hero}. "It is my {toy}."', "{hero} held the {toy} tight and shook {hero_his} head."),
        ("{friend} was sad and walked away.", "{friend} felt hurt and went to sit alone."),
    ),
    (
        (
            "{hero} played with the {toy}, but it was no fun to play alone.",
            "Soon {hero} was bored. {Hero_he} missed {hero_his} friend.",
        ),
        (
            "{Hero_he} thought about {friend} and felt sorry.",
            "Then {hero_he} saw {friend} sitting alone, and {hero_he} felt bad.",
        ),
        (
            '"I am sorry, {friend}," said {hero}. "You can play with my {toy}."',
            '{hero} ran to {friend} and said, "Let us play together!"',
        ),
        (
            "{friend} smiled, and they took turns with the {toy}.",
            "They played with the {look} {toy} together, and it was much more fun.",
        ),
    ),
)

RAIN: tuple[Paragraph, ...] = (
    (
        (
            "One {weather} {time}, {hero} and {friend} wanted to go to {other_place}.",
            "{hero} and {friend} had a plan. They wanted to have a picnic at {other_place}.",
        ),
        ("They put {a_food} in a bag and began to walk.", "{hero} packed {a_food}, and {friend} took a blanket."),
        (
            "But then big dark clouds came, and it started to rain.",
            "Soon the sky turned dark, and rain fell on their heads.",
        ),
        (
            '"Oh no!" said {friend}. "Now we can not go."',
            '{friend} was sad. "The rain has spoiled our day," {friend_he} said.',
        ),
    ),
    (
        (
            '{hero} thought for a while. "I have an idea!" {hero_he} said.',
            '"Wait," said {hero}. "I know what we can do."',
        ),
        ("They ran home and made a tent from the blanket.", "They went back to the house and sat under the big table."),
        (
            "There they ate the {food} and listened to the rain.",
            "They shared the {food} and told each other funny stories.",
        ),
        (
            "When the rain stopped, they saw a rainbow over {other_place}.",
            '"This is the best picnic ever," said {friend}.',
        ),
    ),
)

BIRD: tuple[Paragraph, ...] = (
    (
        (
            "One day, {hero} was walking at {other_place} when {hero_he} heard a sound.",
            "{hero} was on {hero_his} way to {other_place}. Then {hero_he} heard a small voice.",
        ),
        ("It was a little {color} bird on the ground.", "A tiny {color} bird sat in the grass."),
        ('"My wing hurts, and I can not fly," said the bird.', "The bird could not fly, and it was afraid."),
    ),
    (
        (
            "{hero} wanted to help, but {hero_he} did not know how.",
            '"I will help you," said {hero}, but {hero_he} was too small to do it alone.',
        ),
        ("So {hero_he} ran to {friend}.", "{Hero_he} called {hero_his} friend {friend}."),
        (
            "{friend} brought a box, and {hero} put soft grass in it.",
            "Together, {hero} and {friend} made a warm nest in a box.",
        ),
        ("Every day, they gave the bird water and some seeds.", "They took care of the bird day and night."),
        ("After a week, the bird could fly again.", "Soon the bird was strong and flew up into the sky."),
        (
            '"Thank you, {hero}! Thank you, {friend}!" it sang.',
            "Every morning, the {color} bird came back to sing for {hero} and {friend}.",
        ),
    ),
)

BROKEN: tuple[Paragraph, ...] = (
    (
        (
            "{friend} had {a_toy}. {Friend_he} loved it very much.",
            "One day, {friend} showed {hero} {friend_his} {look} {toy}.",
        ),
        (
            "While {friend} was away, {hero} picked up the {toy} to look at it.",
            "{hero} wanted to try it when {friend} was not looking.",
        ),
        ("But it fell down and broke!", "Oops! It fell on the floor with a crash."),
        (
            "{hero} was scared. {Hero_he} wanted to hide the {toy}.",
            '"What should I do?" {hero} thought. {Hero_his} heart beat fast.',
        ),
    ),
    (
        ("{hero} asked {hero_his} {parent} what to do.", "{Hero_he} went to {hero_his} {parent} and told the truth."),
        (
            '"You must tell {friend}," said {hero_his} {parent}.',
            "{Hero_his} {parent} said that it is always best to tell the truth.",
        ),
        (
            'So {hero} went to {friend} and said, "I broke your {toy}. I am very sorry."',
            '"I am sorry, {friend}," said {hero}. "Your {toy} broke, and it was my fault."',
        ),
        (
            '{friend} was sad at first, but then {friend_he} said, "Thank you for telling me."',
            '"I am not angry," said {friend}. "You were brave to tell me."',
        ),
        (
            "They fixed the {toy} together with some glue.",
            "Together they put the {toy} back together, and it was as good as new.",
        ),
    ),
)

BRAVE: tuple[Paragraph, ...] = (
    (
        (
            "One {weather} evening, {hero} and {friend} were at {other_place}.",
            "{hero} and {friend} stayed at {other_place} until it was dark.",
        ),
        ("Then they heard a strange noise behind a bush.", "All at once, there was a loud noise."),
        (
            '"I am scared," said {friend}. "It is a monster!"',
            '{friend} was afraid and hid. "What is that?" {friend_he} asked.',
        ),
    ),
    (
        (
            "{hero} was scared too, but {hero_he} wanted to be brave.",
            "{hero} took a deep breath and walked closer, step by step.",
        ),
        ("{Hero_he} looked behind the bush and began to laugh.", "{Hero_he} looked, and then {hero_he} smiled."),
        ("It was only a small {color} frog!", "It was just a kitten that wanted to play."),
        (
            '"Come and see, {friend}!" said {hero}. "There is no monster."',
            "{hero} called {friend}, and {friend_he} laughed too.",
        ),
    ),
)

BAKE: tuple[Paragraph, ...] = (
    (
        (
            "One day, {hero} wanted to make a big {filling} pie for {hero_his} {parent}.",
            "It was a special day, and {hero} wanted to make a {filling} pie.",
        ),
        ("{Hero_he} asked {friend} to help.", "{friend} came to help, because {friend_he} loved to cook."),
        (
            "But {hero} was in a hurry and did not listen to {friend}.",
            '"We must be slow and careful," said {friend}, but {hero} did not want to wait.',
        ),
        ("The pie came out all black and hard.", "{Hero_he} took the pie out too soon, and it fell apart."),
    ),
    (
        ("{hero} was upset and wanted to give up.", '"I can not do it!" {hero} cried.'),
        (
            '"Let us try again," said {friend}. "This time we will be slow."',
            '{friend} said, "Do not give up. We can make another one."',
        ),
        ("They mixed, and they waited, and they waited some more.", "This time, {hero} listened and did not rush."),
        ("At last the pie was done, and it smelled very good.", "When it was ready, the pie was yummy and sweet."),
        (
            "{Hero_his} {parent} ate it all and said it was the best pie ever.",
            "They gave a big piece to {hero_his} {parent}, who was proud of them.",
        ),
    ),
)

SEED: tuple[Paragraph, ...] = (
    (
        ("One day, {hero} found a small seed at {place}.", "{Hero_his} {parent} gave {hero} a little seed."),
        (
            "{Hero_he} put it in the ground and gave it some water.",
            "{hero} dug a hole, put the seed in it, and watered it.",
        ),
        (
            "The next day, {hero_he} looked, but there was nothing.",
            "{Hero_he} looked every morning, but no plant came up.",
        ),
        ('"It is not working," said {hero}. {Hero_he} was sad.', "{hero} felt sad and wanted to dig it up."),
    ),
    (
        (
            '"You must wait," said {friend}. "A seed needs time."',
            '{friend} said, "Be patient, {hero}. It is growing under the ground."',
        ),
        (
            "So {hero} waited and gave it water every day.",
            "Every day, {hero} and {friend} gave the seed water together.",
        ),
        ("One {weather} {time}, there was a tiny green leaf!", "Then one day, a little plant came out of the ground."),
        (
            "It grew and grew, and soon it had a big {color} flower.",
            "In the summer, it had the most beautiful {color} flower at {place}.",
        ),
    ),
)

RACE: tuple[Paragraph, ...] = (
    (
        (
            'One day, {friend} said, "I am the fastest! Let us have a race to {other_place}."',
            '"I can run faster than you," said {friend}. "Let us race to {other_place}!"',
        ),
        ('"All right," said {hero}. They ran as fast as they could.', "{hero} said yes, and they started to run."),
        (
            "{friend} was far ahead, but then {friend_he} fell over a stone.",
            "On the way, {friend} slipped in the mud and hurt {friend_his} leg.",
        ),
    ),
    (
        (
            "{hero} could have won the race. But {hero_he} stopped.",
            "{hero} saw it and stopped at once, because {friend} was {hero_his} friend.",
        ),
        (
            '"Are you hurt, {friend}?" {hero_he} asked, and helped {friend_him} to get up.',
            '"Let me help you," said {hero}, and gave {friend_him} a hand.',
        ),
        ("They walked to {other_place} side by side.", "Slowly, they walked the rest of the way together."),
        (
            '"You did not win, but you are a good friend," said {friend}.',
            '"I am sorry that I bragged," said {friend}. "You are the real winner."',
        ),
    ),
)

TREASURE: tuple[Paragraph, ...] = (
    (
        ("{hero} found an old map {hiding}.", "One {weather} {time}, {hero} discovered a secret map {hiding}."),
        (
            '"Look, {friend}! This is a treasure map," {hero_he} shouted.',
            "{Hero_he} hurried to show it to {friend}, who was very excited.",
        ),
        (
            "The map showed a path from {place} to {other_place}.",
            "There was a cross on the map, right in the middle of {other_place}.",
        ),
    ),
    (
        (
            "They crossed a stream, climbed over a wall and crawled through a tunnel.",
            "They followed the path, past the windmill and the church, and counted a hundred steps.",
        ),
        (
            "Suddenly, {friend} wanted to turn back, because {friend_his} feet were tired.",
            "The journey was long, and {friend} was hungry and thirsty.",
        ),
        (
            '"Only a few more steps," {hero} whispered, and gave {friend_him} {a_food}.',
            "{hero} shared {hero_his} last {food} with {friend}, and they rested under an oak.",
        ),
        (
            "Finally, they dug in the sand and pulled out a heavy chest.",
            "At last, their shovel touched something hard. It was a treasure chest!",
        ),
        (
            "Inside was {a_toy}, and a letter that said: the real treasure is the friend who came with you.",
            "It was full of chocolate coins and colorful feathers, enough for everyone in the village.",
        ),
    ),
)

DOCTOR: tuple[Paragraph, ...] = (
    (
        (
            "One {time}, {hero} woke up with a terrible stomach ache.",
            "{hero} had eaten seven candies before breakfast, and now {hero_his} tummy hurt.",
        ),
        (
            "{Hero_his} {parent} wanted to visit the doctor, but {hero} was frightened.",
            '"I do not need a doctor!" {hero} yelled, and hid {hiding}.',
        ),
    ),
    (
        ("{friend} knocked on the door and listened.", "{friend} heard the noise and came to see what had happened."),
        (
            '"The doctor helped me last winter," {friend} explained. "She was gentle, and I felt better quickly."',
            '"I was nervous too," {friend_he} answered. "But the nurse gave me a sticker."',
        ),
        (
            "So {hero} went, holding {friend_his} hand the whole time.",
            "{hero} agreed to go, because {friend} promised to stay with {hero_him}.",
        ),
        (
            "The doctor gave {hero_him} some medicine, which tasted like honey.",
            "The doctor looked into {hero_his} mouth and ears, and told {hero_him} to drink warm tea.",
        ),
        ("Before dinner, {hero} was healthy again.", "Two days later, {hero} was jumping around as always."),
    ),
)

CIRCUS: tuple[Paragraph, ...] = (
    (
        (
            "The circus came to {place}, and everybody was invited.",
            "There was going to be a big show at {place}, with music and dancing.",
        ),
        (
            "{hero} wanted to juggle three {color} balls, but they dropped again and again.",
            "{hero} practiced a magic trick with {a_toy}, but it never worked.",
        ),
        (
            '"I am the worst in the world," {hero_he} sighed.',
            "{Hero_he} threw {hero_his} hat on the floor, angry and disappointed.",
        ),
    ),
    (
        (
            "{friend} offered to practice with {hero_him} every {time}.",
            '"Nobody is perfect the first time," said {friend}. "Show me slowly."',
        ),
        (
            "They tried ten times, and twenty times, and laughed at each mistake.",
            "Day after day, {hero_he} got a tiny bit better.",
        ),
        (
            "When the drums played and the lights were on, {hero} stepped forward.",
            "On the night of the show, {hero} took a deep breath and bowed.",
        ),
        (
            "Everything went well, and the crowd clapped and cheered.",
            '"Bravo!" shouted the people, and {friend} clapped the loudest.',
        ),
    ),
)

SNOW: tuple[Paragraph, ...] = (
    (
        (
            "In the winter, {hero} and {friend} built a giant snowman at {other_place}.",
            "Snow had covered {other_place}, and {hero} wanted to build a snowman with {friend}.",
        ),
        (
            "They used {a_food} for the nose and buttons for the eyes.",
            "{friend} brought an old scarf and a {color} hat.",
        ),
        (
            "But {hero} wanted the snowman to live in {hero_his} bedroom.",
            '"He must be freezing out here," {hero} worried.',
        ),
    ),
    (
        (
            '"He will melt inside the warm house," {friend} warned.',
            "{friend} shook {friend_his} head, but {hero} did not believe {friend_him}.",
        ),
        (
            "{hero} carried a snowball into the kitchen, and soon there was only a puddle.",
            "{Hero_he} tried it with a small one, and after an hour it had turned into water.",
        ),
        (
            '"You were right," {hero} admitted. "Snow belongs outside."',
            "{hero} wiped the floor with a towel and said sorry for not listening.",
        ),
        (
            "The next morning, they visited the snowman and sang a cheerful song.",
            "After that, they waved to the snowman through the window, and he seemed to smile.",
        ),
    ),
)

Plot = tuple[tuple[Paragraph, ...], tuple[str, ...]]

PLOTS: tuple[Plot, ...] = (
    (
        LOST,
        (
            "{hero} learned that a good friend helps you when you are sad.",
            "{hero} learned to take good care of {hero_his} things.",
        ),
    ),
    (
        SHARE,
        (
            "{hero} learned that it is more fun to share.",
            "{Hero_he} learned that a {toy} is nice, but a friend is better.",
        ),
    ),
    (RAIN, ("They learned that a rainy day can be fun too.", "{friend} learned that a good idea can save the day.")),
    (
        BIRD,
        (
            "{hero} learned that it feels good to help others.",
            "They learned that even small friends can do big things.",
        ),
    ),
    (BROKEN, ("{hero} learned to always tell the truth.", "{hero} learned that it is brave to say sorry.")),
    (
        BRAVE,
        (
            "{hero} learned that being brave means to try even when you are scared.",
            "They learned that things are not so scary when you look at them.",
        ),
    ),
    (BAKE, ("{hero} learned to be patient and to listen.", "{hero} learned never to give up.")),
    (SEED, ("{hero} learned that good things take time.", "{hero} learned to be patient.")),
    (
        TREASURE,
        (
            "They learned that sharing an adventure is worth more than gold.",
            "{hero} learned that friends make a long road short.",
        ),
    ),
    (
        DOCTOR,
        (
            "{hero} learned that asking for help is nothing to be ashamed of.",
            "{hero} learned not to be afraid of the doctor.",
        ),
    ),
    (
        CIRCUS,
        ("{hero} learned that practice makes a difference.", "{Hero_he} learned that mistakes are part of learning."),
    ),
    (
        SNOW,
        (
            "{hero} learned to trust the advice of a friend.",
            "{Hero_he} learned that some things are beautiful where they are.",
        ),
    ),
    (RACE, ("They learned that it is more important to be kind than to win.", "{friend} learned not to brag.")),
)
