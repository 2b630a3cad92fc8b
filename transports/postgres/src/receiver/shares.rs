//! How messages are shared out.

/// Returns how many of `count` messages each gets of those that want so many: as equal as possible, and of the rest the first
/// ones get one more each.
pub(super) fn shares(wants: &[usize], mut count: usize) -> Vec<usize> {
    let mut shares = vec![0; wants.len()];
    loop {
        let unmet = || (0..wants.len()).filter(|&nth| shares[nth] < wants[nth]);
        let each = match unmet().count() {
            0 => return shares,
            unmet => (count / unmet).max(1),
        };
        for nth in unmet().collect::<Vec<_>>() {
            let more = each.min(wants[nth] - shares[nth]).min(count);
            shares[nth] += more;
            count -= more;
            if count == 0 {
                return shares;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::shares;

    #[test]
    fn messages_are_shared_out_as_equally_as_they_are_wanted() {
        assert_eq!(shares(&[1, 1, 1], 3), [1, 1, 1]);
        assert_eq!(shares(&[1, 1, 1], 2), [1, 1, 0]);
        assert_eq!(shares(&[10, 10], 10), [5, 5]);
        assert_eq!(shares(&[10, 10, 10], 11), [4, 4, 3]);
        assert_eq!(shares(&[1_000, 1, 2], 100), [97, 1, 2]);
        assert_eq!(shares(&[2, 1_000, 500], 1_000), [2, 499, 499]);
        assert_eq!(shares(&[5, 5], 20), [5, 5]);
        assert_eq!(shares(&[3, 3], 0), [0, 0]);
        assert!(shares(&[], 3).is_empty());
    }
}
