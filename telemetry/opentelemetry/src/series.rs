//! The labels of an operation, with each of its outcomes.

use std::sync::{Arc, PoisonError, RwLock};

use opentelemetry::KeyValue;

use crate::names::attribute;

/// Sets of labels that are built once: without an error, and with each error that occurs. Errors are of closed lists.
#[derive(Debug)]
pub(crate) struct Series {
    succeeded: Box<[KeyValue]>,
    failed: RwLock<Vec<Failed>>,
}

type Failed = (&'static str, Arc<[KeyValue]>);

impl Series {
    pub(crate) fn new(labels: impl IntoIterator<Item = KeyValue>) -> Self {
        Self { succeeded: labels.into_iter().collect(), failed: RwLock::default() }
    }

    /// The labels without an error.
    pub(crate) fn labels(&self) -> &[KeyValue] {
        &self.succeeded
    }

    /// Calls `f` with the labels of an outcome.
    pub(crate) fn with(&self, error: Option<&'static str>, f: impl FnOnce(&[KeyValue])) {
        match error {
            None => f(&self.succeeded),
            Some(error) => f(&self.failed(error)),
        }
    }

    fn failed(&self, error: &'static str) -> Arc<[KeyValue]> {
        let found =
            |all: &[Failed]| all.iter().find(|(known, _)| *known == error).map(|(_, labels)| Arc::clone(labels));
        if let Some(labels) = found(&self.failed.read().unwrap_or_else(PoisonError::into_inner)) {
            return labels;
        }
        let mut all = self.failed.write().unwrap_or_else(PoisonError::into_inner);
        found(&all).unwrap_or_else(|| {
            let error_type = KeyValue::new(attribute::ERROR_TYPE, error);
            let labels: Arc<[KeyValue]> = self.succeeded.iter().cloned().chain([error_type]).collect();
            all.push((error, Arc::clone(&labels)));
            labels
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labels_of_an_outcome_are_built_once() {
        let series = Series::new([KeyValue::new("a", 1)]);
        let labels = |error| {
            let mut seen = (Vec::new(), std::ptr::null());
            series.with(error, |labels| seen = (labels.to_vec(), labels.as_ptr()));
            seen
        };
        let (none, timeout, other) = (labels(None), labels(Some("Timeout")), labels(Some("_OTHER")));
        assert_eq!(none.0, [KeyValue::new("a", 1)]);
        assert_eq!(timeout.0, [KeyValue::new("a", 1), KeyValue::new("error.type", "Timeout")]);
        assert_eq!(other.0, [KeyValue::new("a", 1), KeyValue::new("error.type", "_OTHER")]);
        assert_eq!((labels(None), labels(Some("Timeout")), labels(Some("_OTHER"))), (none, timeout, other));
    }
}
