use std::fmt;

use serde_json::{Value, json};

use super::finding::Finding;

/// What libFuzzer prints about one target.
#[derive(Debug)]
pub(super) struct Report {
    target: &'static str,
    executions: u64,
    per_second: u64,
    peak_rss_mib: u64,
    findings: Vec<Finding>,
}

impl Report {
    pub(super) const fn new(target: &'static str) -> Self {
        Self { target, executions: 0, per_second: 0, peak_rss_mib: 0, findings: Vec::new() }
    }

    /// Reads a line of the output.
    pub(super) fn read(&mut self, line: &str) {
        let number = |name: &str| line.strip_prefix(name)?.trim().parse().ok();
        if let Some(executions) = number("stat::number_of_executed_units:") {
            self.executions = executions;
        } else if let Some(per_second) = number("stat::average_exec_per_sec:") {
            self.per_second = per_second;
        } else if let Some(peak) = number("stat::peak_rss_mb:") {
            self.peak_rss_mib = peak;
        } else if let Some((_, file)) = line.split_once("Test unit written to ") {
            // The path that libFuzzer prints is absolute.
            let start = file.find("fuzz/artifacts/").unwrap_or(0);
            self.findings.push(Finding { target: self.target, file: file[start..].trim().to_owned() });
        }
    }

    pub(super) const fn findings(&self) -> usize {
        self.findings.len()
    }

    /// Whether there were no figures and no finding.
    pub(super) const fn is_empty(&self) -> bool {
        self.executions == 0 && self.findings.is_empty()
    }

    pub(super) fn into_findings(self) -> Vec<Finding> {
        self.findings
    }

    pub(super) fn json(&self) -> Value {
        let files: Vec<_> = self.findings.iter().map(|finding| finding.file.as_str()).collect();
        json!({
            "target": self.target, "executions": self.executions, "executions_per_second": self.per_second,
            "peak_rss_mib": self.peak_rss_mib, "findings": files,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, executions, per_second, peak_rss_mib, findings } = self;
        let findings = findings.len();
        write!(
            f,
            "{target:<12} {executions:>12} executions {per_second:>8} exec/s {peak_rss_mib:>6} MiB {findings:>3} finding(s)"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lines: &[&str]) -> Report {
        let mut report = Report::new("codec");
        for line in lines {
            report.read(line);
        }
        report
    }

    #[test]
    fn figures_are_read_from_the_final_statistics() {
        let report = report(&[
            "#4096\tpulse  cov: 12 ft: 13 corp: 4/5b lim: 4 exec/s: 2048 rss: 37Mb",
            "stat::number_of_executed_units: 5125347",
            "stat::average_exec_per_sec:     84022",
            "stat::new_units_added:          3",
            "stat::slowest_unit_time_sec:    0",
            "stat::peak_rss_mb:              512",
        ]);
        assert_eq!((report.executions, report.per_second, report.peak_rss_mib), (5_125_347, 84_022, 512));
        assert_eq!(report.findings(), 0);
    }

    #[test]
    fn a_finding_is_a_file_inside_the_workspace() {
        let line = "artifact_prefix='/a/fuzz/artifacts/codec/'; Test unit written to /a/fuzz/artifacts/codec/crash-1";
        let report = report(&[line]);
        assert!(!report.is_empty());
        assert_eq!(report.json()["findings"], json!(["fuzz/artifacts/codec/crash-1"]));
        let finding = Finding { target: "codec", file: "fuzz/artifacts/codec/crash-1".into() };
        assert_eq!(report.into_findings(), [finding]);
    }

    #[test]
    fn an_output_without_figures_and_findings_is_empty() {
        assert!(report(&["error: could not compile `consign-amqp`"]).is_empty());
    }
}
