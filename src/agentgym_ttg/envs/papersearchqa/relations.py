"""The relations of the fact table, and how they are worded.

A relation is worded in two ways: as statements (documents) and as questions, original and paraphrased. Where it can be
asked from its other end too, ``inverse`` holds those questions. ``bridge`` names the object by the subject, for
questions over two hops: "the antidote of cyanide". The first statement, question and bridge of each list are the ones
that the easy level uses, with the second where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FILES", "RELATIONS", "Asking", "Relation"]


@dataclass(frozen=True, slots=True)
class Asking:
    """How one end of a relation is asked for, given the other as ``{s}``.

    Attributes:
        keyword: What a query adds to the name.
        original: Question templates.
        paraphrased: Question templates in other words.
        bridge: What is asked for as a noun phrase, original and paraphrased; empty where it is no use as a bridge.
    """

    keyword: str
    original: tuple[str, ...]
    paraphrased: tuple[str, ...]
    bridge: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Relation:
    """One relation.

    Attributes:
        name: Its name.
        field: The field of medicine, for titles.
        topic: What is asked, as a noun, for documents that do not say it.
        statements: Sentences that state ``{s}`` and ``{o}``.
        forward: The object is asked for.
        inverse: The subject is asked for; None where that has no single answer.
    """

    name: str
    field: str
    topic: str
    statements: tuple[str, ...]
    forward: Asking
    inverse: Asking | None = None


#: File -> columns of (relation, subject column, object column).
FILES: dict[str, tuple[tuple[str, int, int], ...]] = {
    "drugs": (("class", 0, 1), ("target", 0, 2), ("indication", 0, 3), ("adverse", 0, 4)),
    "genes": (("gene", 0, 1), ("product", 0, 2)),
    "pathogens": (("illness", 0, 1), ("route", 1, 2), ("remedy", 1, 3)),
    "deficiencies": (("deficiency", 0, 1), ("hallmark", 1, 2), ("food", 0, 3)),
    "enzymes": (("enzyme", 0, 1), ("storage", 1, 2)),
    "antibodies": (("antibody", 0, 1), ("hallmark", 1, 2)),
    "signs": (("sign", 0, 1), ("place", 0, 2)),
    "toxins": (("antidote", 0, 1), ("clue", 0, 2)),
    "hormones": (("source", 0, 1), ("excess", 0, 2), ("lack", 0, 3)),
    "chromosomes": (("anomaly", 0, 1), ("hallmark", 1, 2)),
}

_TREATMENT = Asking(
    "treatment",
    ("Which drug is used for {s}?", "What is the treatment of {s}?"),
    ("Doctors who look after patients with {s} reach for what medicine?", "What agent helps against {s}?"),
    ("the drug used for {s}", "the medicine that helps against {s}"),
)

RELATIONS: dict[str, Relation] = {
    relation.name: relation
    for relation in (
        Relation(
            "class",
            "Pharmacology",
            "drug class",
            (
                "{s} belongs to the drug class {o}.",
                "The drug class of {s} is {o}.",
                "Pharmacologists group {s} with the {o} class of drugs.",
                "As a {o}, {s} shares the chemistry of its class.",
            ),
            Asking(
                "class",
                ("Which drug class does {s} belong to?", "What is the drug class of {s}?"),
                ("Under what family of medicines is {s} listed?", "How do pharmacologists classify {s}?"),
            ),
        ),
        Relation(
            "target",
            "Biochemistry",
            "target",
            (
                "The molecular target of {s} is {o}.",
                "{s} acts on its target, {o}.",
                "Binding studies confirmed {o} as the site of action of {s}.",
                "The effect of {s} was lost in cells that lack {o}, its target.",
            ),
            Asking(
                "target",
                ("What is the molecular target of {s}?", "On which target does {s} act?"),
                ("What does {s} bind to in order to work?", "The site of action of {s} is what molecule?"),
            ),
        ),
        Relation(
            "indication",
            "Therapeutics",
            "treatment",
            (
                "{s} is an accepted treatment in {o}.",
                "An accepted treatment in {o} is {s}.",
                "In {o}, treatment with {s} gave good results.",
                "For {o}, the established treatment was {s}.",
            ),
            Asking(
                "treatment",
                ("Which condition is {s} used to treat?", "What is {s} used for?"),
                ("A prescription of {s} suggests what diagnosis?", "Patients with what problem benefit from {s}?"),
                ("the condition that {s} is used to treat", "the problem that {s} helps against"),
            ),
            _TREATMENT,
        ),
        Relation(
            "remedy",
            "Therapeutics",
            "treatment",
            (
                "{o} is an accepted treatment in {s}.",
                "An accepted treatment in {s} is {o}.",
                "In {s}, treatment with {o} gave good results.",
                "For {s}, the established treatment was {o}.",
            ),
            _TREATMENT,
        ),
        Relation(
            "adverse",
            "Drug safety",
            "adverse effect",
            (
                "A known adverse effect of {s} is {o}.",
                "With {s}, {o} may occur as an adverse effect.",
                "Therapy with {s} had to be stopped because of {o}, an adverse effect.",
                "Pharmacovigilance linked {o} to {s} exposure as an adverse effect.",
            ),
            Asking(
                "adverse effect",
                ("What is a known adverse effect of {s}?", "Which adverse effect does {s} have?"),
                ("What harm should people who take {s} be warned about?", "What unwanted event is linked to {s}?"),
            ),
            Asking(
                "adverse effect",
                ("Which drug has the adverse effect {s}?", "Which drug is known to cause {s}?"),
                ("A patient develops {s}; what medicine is to blame?", "What agent brings on {s}?"),
                ("the drug that causes {s}", "the medicine to blame for {s}"),
            ),
        ),
        Relation(
            "gene",
            "Genetics",
            "effect of a mutation",
            (
                "Mutations of the gene {s} cause {o}.",
                "{o} is caused by mutations of the gene {s}.",
                "Sequencing of families with {o} revealed mutations in {s}.",
                "A mutation of {s} segregated with {o} in this kindred.",
            ),
            Asking(
                "mutation",
                ("Which disease is caused by mutations of {s}?", "What disease do mutations of the gene {s} cause?"),
                ("A faulty {s} leads to what disorder?", "Carriers of defects in {s} suffer from what condition?"),
                ("the disease caused by mutations of {s}", "the disorder that a faulty {s} leads to"),
            ),
            Asking(
                "gene mutation",
                ("Which gene is mutated in {s}?", "Mutations of which gene cause {s}?"),
                ("What part of the genome is defective in people with {s}?", "The heritable cause of {s} lies where?"),
                ("the gene mutated in {s}", "the gene that is defective in {s}"),
            ),
        ),
        Relation(
            "product",
            "Molecular biology",
            "product that the gene encodes",
            (
                "The gene {s} encodes {o}.",
                "The product encoded by {s} is {o}.",
                "Expression of {s} in cultured cells yielded {o}, the encoded product.",
                "{o}, encoded by {s}, was missing on western blots.",
            ),
            Asking(
                "encodes",
                ("What does the gene {s} encode?", "What is the product encoded by {s}?"),
                ("Translation of {s} yields what protein?", "What molecule is made from {s}?"),
            ),
        ),
        Relation(
            "illness",
            "Infectious diseases",
            "cause",
            (
                "{s} causes {o}.",
                "The cause of {o} is {s}.",
                "In this outbreak of {o}, {s} was isolated as the cause.",
                "Serology confirmed {s} as the cause of {o}.",
            ),
            Asking(
                "cause",
                ("Which illness does {s} cause?", "What is the illness caused by {s}?"),
                ("People infected with {s} come down with what?", "Infection with {s} shows itself as what?"),
                ("the illness caused by {s}", "the infection that {s} brings about"),
            ),
            Asking(
                "cause",
                ("Which organism causes {s}?", "What is the cause of {s}?"),
                ("What microbe is behind {s}?", "Cultures from people with {s} grow what?"),
            ),
        ),
        Relation(
            "route",
            "Epidemiology",
            "transmission",
            (
                "{s} is transmitted by {o}.",
                "Transmission of {s} is by {o}.",
                "Cases of {s} were traced to {o} as the means of transmission.",
                "Control of {o} ended the transmission of {s}.",
            ),
            Asking(
                "transmission",
                ("How is {s} transmitted?", "What is the means of transmission of {s}?"),
                ("People catch {s} from what?", "To avoid {s}, one keeps away from what?"),
            ),
        ),
        Relation(
            "deficiency",
            "Nutrition",
            "effect of a deficiency",
            (
                "Deficiency of {s} causes {o}.",
                "{o} is due to a deficiency of {s}.",
                "Refugees with {o} were found to have a deficiency of {s}.",
                "{o} healed when the deficiency of {s} was corrected.",
            ),
            Asking(
                "deficiency",
                ("Which illness is due to a deficiency of {s}?", "What does deficiency of {s} cause?"),
                ("A diet without {s} ends in what?", "Too little {s} makes people ill with what?"),
                ("the illness due to a deficiency of {s}", "the illness that too little {s} brings"),
            ),
            Asking(
                "deficiency",
                ("Deficiency of which nutrient causes {s}?", "Which nutrient is lacking in {s}?"),
                ("What should people with {s} eat more of?", "What missing substance explains {s}?"),
                ("the nutrient lacking in {s}", "the substance whose absence explains {s}"),
            ),
        ),
        Relation(
            "food",
            "Dietetics",
            "food",
            (
                "A rich food source of {s} is {o}.",
                "{o} is eaten as a food rich in {s}.",
                "Of all foods analysed, {o} was the richest in {s}.",
                "Eating {o} as food raised the serum level of {s}.",
            ),
            Asking(
                "food",
                ("Which food is rich in {s}?", "What is a rich food source of {s}?"),
                ("What should one eat to get {s}?", "{s} is plentiful in what?"),
            ),
        ),
        Relation(
            "hallmark",
            "Clinical medicine",
            "hallmark",
            (
                "The hallmark of {s} is {o}.",
                "With {s}, {o} may be the hallmark.",
                "Examination of patients with {s} showed its hallmark, {o}.",
                "{o} was the hallmark that led to the diagnosis of {s}.",
            ),
            Asking(
                "hallmark",
                ("What is the hallmark of {s}?", "Which finding is the hallmark of {s}?"),
                ("By what feature is {s} recognised?", "What do doctors look for to diagnose {s}?"),
            ),
        ),
        Relation(
            "enzyme",
            "Metabolism",
            "effect of a deficiency",
            (
                "Deficiency of {s} causes {o}.",
                "{o} is due to a deficiency of {s}.",
                "Fibroblasts of children with {o} showed a deficiency of {s}.",
                "A deficiency of {s} was proved in a newborn with {o}.",
            ),
            Asking(
                "deficiency",
                ("Which disease is due to a deficiency of {s}?", "What does deficiency of {s} cause?"),
                ("Loss of {s} activity results in what disorder?", "Babies born without {s} have what condition?"),
                ("the disease due to a deficiency of {s}", "the disorder that loss of {s} results in"),
            ),
            Asking(
                "enzyme deficiency",
                ("Deficiency of which enzyme causes {s}?", "Which enzyme is deficient in {s}?"),
                ("What catalyst is missing in {s}?", "What activity is absent in the cells of people with {s}?"),
            ),
        ),
        Relation(
            "storage",
            "Metabolism",
            "substance that accumulates",
            (
                "In {s}, {o} accumulates.",
                "The substance that accumulates in {s} is {o}.",
                "Tissue from patients with {s} accumulates {o}.",
                "Raised {o}, which accumulates in {s}, was found in urine or tissue.",
            ),
            Asking(
                "accumulates",
                ("Which substance accumulates in {s}?", "What accumulates in {s}?"),
                ("What do laboratories find raised in {s}?", "The tissues of people with {s} fill with what?"),
            ),
        ),
        Relation(
            "antibody",
            "Immunology",
            "value as a marker",
            (
                "{s} is the marker of {o}.",
                "The marker of {o} is {s}.",
                "Sera of patients with {o} contained the marker {s}.",
                "The titre of {s}, the marker of {o}, followed disease activity.",
            ),
            Asking(
                "marker",
                ("Of which disease is {s} the marker?", "What disease does the marker {s} point to?"),
                ("Finding {s} in serum suggests what diagnosis?", "People with {s} usually suffer from what?"),
                ("the disease marked by {s}", "the disorder that {s} in serum suggests"),
            ),
        ),
        Relation(
            "sign",
            "Clinical signs",
            "value as a sign",
            (
                "{s} may be a sign of {o}.",
                "A sign of {o} is {s}.",
                "In a patient with {o}, {s} was the first sign.",
                "{s} proved to be the most specific sign of {o}.",
            ),
            Asking(
                "sign",
                ("Of which disease is {s} a sign?", "What disease is {s} a sign of?"),
                ("Seeing {s} makes one think of what?", "A doctor who notes {s} suspects what?"),
                ("the disease of which {s} is a sign", "the disorder that {s} makes one suspect"),
            ),
        ),
        Relation(
            "place",
            "Clinical signs",
            "place where it is found",
            (
                "{s} may be found at the {o}.",
                "The place where {s} is found is the {o}.",
                "Inspection of the {o} is where {s} is found.",
                "{s}, found at the {o}, was photographed.",
            ),
            Asking(
                "found",
                ("Where is {s} found?", "At what place is {s} found?"),
                ("To see {s}, one examines what?", "What site shows {s}?"),
            ),
        ),
        Relation(
            "antidote",
            "Toxicology",
            "antidote",
            (
                "The antidote of {s} is {o}.",
                "{o} is the antidote of {s}.",
                "A patient with {s} exposure recovered after {o} as antidote.",
                "{o} was stocked as the antidote of {s}.",
            ),
            Asking(
                "antidote",
                ("What is the antidote of {s}?", "Which antidote is given for {s}?"),
                ("What reverses {s}?", "What should an emergency room stock against {s}?"),
                ("the antidote of {s}", "the agent that reverses {s}"),
            ),
        ),
        Relation(
            "clue",
            "Toxicology",
            "clue to poisoning",
            (
                "A clue to {s} poisoning is {o}.",
                "{o} may be a clue to {s} poisoning.",
                "{o} was the clue that revealed poisoning by {s}.",
                "Poisoning by {s} was missed although {o}, the clue, was noted.",
            ),
            Asking(
                "poisoning clue",
                ("What is a clue to {s} poisoning?", "Which clue points to {s}?"),
                ("What finding gives {s} away?", "How might one notice {s}?"),
            ),
        ),
        Relation(
            "source",
            "Endocrinology",
            "tissue from which it is secreted",
            (
                "{s} is secreted by the {o}.",
                "The source that secretes {s} is the {o}.",
                "Staining for {s} labelled the {o}, from which it is secreted.",
                "Isolated {o} preparations secreted {s}.",
            ),
            Asking(
                "secreted",
                ("By what is {s} secreted?", "What is the source that secretes {s}?"),
                ("Where in the body is {s} made?", "{s} enters the blood from what?"),
            ),
        ),
        Relation(
            "excess",
            "Endocrinology",
            "effect of an excess",
            (
                "Excess of {s} causes {o}.",
                "{o} is due to an excess of {s}.",
                "Patients with {o} had an excess of {s} in plasma.",
                "An excess of {s} explained {o} in this case.",
            ),
            Asking(
                "excess",
                ("What is due to an excess of {s}?", "Which disorder does excess of {s} cause?"),
                ("Too much {s} shows itself as what?", "Overproduction of {s} is known as what?"),
                ("the disorder due to an excess of {s}", "the state that too much {s} brings"),
            ),
            Asking(
                "excess hormone",
                ("Excess of which hormone causes {s}?", "Which hormone is in excess in {s}?"),
                ("What messenger is overproduced in {s}?", "What is raised in the blood of people with {s}?"),
                ("the hormone in excess in {s}", "the messenger overproduced in {s}"),
            ),
        ),
        Relation(
            "lack",
            "Endocrinology",
            "effect of a lack",
            (
                "Lack of {s} causes {o}.",
                "{o} is due to a lack of {s}.",
                "Patients with {o} had a lack of {s} on stimulation.",
                "A lack of {s} explained {o} in this case.",
            ),
            Asking(
                "lack",
                ("What is due to a lack of {s}?", "Which disorder does lack of {s} cause?"),
                ("Too little {s} shows itself as what?", "When {s} is missing, what follows?"),
                ("the disorder due to a lack of {s}", "the state that too little {s} brings"),
            ),
            Asking(
                "lack hormone",
                ("Lack of which hormone causes {s}?", "Which hormone is lacking in {s}?"),
                ("What messenger is missing in {s}?", "What must be replaced in people with {s}?"),
                ("the hormone lacking in {s}", "the messenger missing in {s}"),
            ),
        ),
        Relation(
            "anomaly",
            "Cytogenetics",
            "anomaly",
            (
                "The anomaly {s} is found in {o}.",
                "{o} is due to the anomaly {s}.",
                "Karyotyping in {o} showed the anomaly {s}.",
                "The anomaly {s} confirmed the diagnosis of {o}.",
            ),
            Asking(
                "anomaly",
                ("In which disorder is the anomaly {s} found?", "What disorder is due to the anomaly {s}?"),
                ("A laboratory that reports {s} suggests what?", "Cells with {s} point to what condition?"),
                ("the disorder with the anomaly {s}", "the condition that {s} points to"),
            ),
            Asking(
                "anomaly",
                ("Which anomaly is found in {s}?", "What anomaly causes {s}?"),
                ("What does karyotyping show in {s}?", "What chromosomal change underlies {s}?"),
            ),
        ),
    )
}
