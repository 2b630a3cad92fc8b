//! Defects that tests must detect. `cargo xtask sabotage` builds with `--cfg sabotage`, and runs the tests once for
//! each defect, which the environment variable `CONSIGN_SABOTAGE` names. No other build has any.

/// One defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Defect {
    AcknowledgeBeforeSync,
    DeadLetterInTwoSteps,
    DropForgets,
    ExpireByUtc,
    ForgetDeliveryCount,
    ForgetIds,
    IgnoreLockToken,
    IgnoreSyncError,
    SkipFolderSync,
    SkipHeadSync,
    SkipRecoverySync,
    SkipSegmentNameSync,
    SkipSegmentSync,
    SkipSync,
    TruncateAtDamage,
    TrustCache,
}

impl Defect {
    /// Whether this build, in this process, has the defect.
    #[cfg(not(sabotage))]
    #[expect(clippy::unused_self, reason = "a build for `cargo xtask sabotage` needs it")]
    pub(super) const fn is_there(self) -> bool {
        false
    }

    #[cfg(sabotage)]
    pub(super) fn is_there(self) -> bool {
        consign_core::sabotage::has(&format!("{self:?}"))
    }
}
