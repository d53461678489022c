"""English stop words."""

_BY_LANGUAGE = {
    "english": """
        a about above after again against all also am an and any are as at be because been before being below between
        both but by can could did do does doing down during each few for from further had has have having he her here
        hers him his how however i if in into is it its just may me might more most must my no nor not now of off on
        once only or other our out over own same shall she should so some such than that the their them then there these
        they this those through to too under until up upon us very was we were what when where which while who whom why
        will with within without would you your
    """,
    "german": """
        aber alle als also am an auch auf aus bei beim bin bis da dann das dass dem den denn der des die dies diese
        dieser dieses doch du durch ein eine einem einen einer eines er es für gegen hat hatte ich ihr ihre im in ins
        ist ja kann kein keine man mehr mit nach nicht noch nur ob oder ohne sehr sein seine sich sie sind so über um
        und uns unter vom von vor war waren was wenn wer werden wie wir wird wo zu zum zur zwischen
    """,
    "finnish": """
        ei eivät eli en että ette hän he ja jo joka jos joten jotka kanssa koska kuin kun me mikä minä missä mitä mukaan
        mutta myös ne niin noin nyt oli olivat olla on ovat se sekä sen siellä siitä sinä sitä tai tämä tässä te
        tuo vaan vai vain vielä yli
    """,
    "swedish": """
        alla än ännu är åt att av blev blir då de den denna det detta dig din du efter eller en ett för från genom ha
        hade han har hon hur i ingen inte jag kan man med men mellan men mig mot när någon och om på sig sin sina ska
        skulle som till under upp ut utan vad var vara vi vid
    """,
    "french": """
        à au aussi aux avec ce ces cette comme dans de des dont du elle elles en entre est et être eux il ils je la le
        les leur leurs lui mais même ne nous on ont ou où par pas plus pour qu que qui sa sans se ses si son sont sous
        sur un une vous
    """,
    "spanish": """
        a al ante como con contra de del desde donde el ella ellas ellos en entre era es esta este están ha han hasta
        la las le les lo los más me mi muy ni no nos o para pero por porque que quien se ser si sin sobre son su sus
        también un una uno y ya
    """,
}

STOP_WORDS = frozenset(word for words in _BY_LANGUAGE.values() for word in words.split())
