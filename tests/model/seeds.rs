/// A seed, the operations that it takes, and what it found. They are run with every test, for ever.
pub(crate) const FOUND: &[(u64, u64, &str)] = &[
    (11_400_714_819_343_459_606, 100, "what was dead from the start, or changed by an action, counted a wrong size"),
    (11_400_714_819_343_459_613, 300, "messages that expired at one instant did so in the order of their slots"),
    (4_354_685_564_957_106_475, 700, "an empty batch was refused by an entity that had outgrown its limit"),
    (14_727_398_570_318_134_765, 1_200, "a longer window of duplicate detection brought ids back"),
    (12_288_869_168_602_894_775, 382, "the model kept the partitions of an idle entity in a transaction"),
    (15_755_400_384_260_043_917, 1_462, "the model deleted a topic whose subscriptions were used"),
];
