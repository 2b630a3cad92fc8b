//! Runs a process under strace, and reads the calls that it has made.

use std::{
    collections::HashMap,
    env, fs,
    path::Path,
    process::{Command, Stdio},
};

/// A system call that returned, or that the process ended in.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: String,
    arguments: String,
    pub(super) result: String,
    /// The lines at which it began and returned.
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Call {
    pub(super) fn arguments(&self) -> Vec<&str> {
        // Bytes and paths are in hexadecimal.
        self.arguments.split(',').map(str::trim_start).collect()
    }

    /// Whether an argument, or the result, names this path or what is in it. All calls have the paths of their descriptors.
    pub(super) fn names(&self, path: &Path) -> bool {
        let path = hex(path.as_os_str().as_encoded_bytes());
        self.arguments.contains(&path) || self.result.contains(&path)
    }

    pub(super) fn failed(&self) -> bool {
        self.result.starts_with('-')
    }
}

/// All calls of a process that have a descriptor or a path among their arguments, in the order in which they returned, and
/// what the process has said on its standard output.
pub(super) fn run(arguments: &[&str], variables: &[(&str, &str)]) -> (Vec<Call>, String) {
    let trace = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new("strace");
    command.args(["--follow-forks", "--decode-fds=path", "--strings-in-hex=all", "--string-limit=1000000000"]);
    command.args(["--quiet=attach,exit,personality", "--trace=%desc,%file", "--output"]).arg(trace.path());
    command.arg(env::current_exe().unwrap()).args(arguments).envs(variables.iter().copied());
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    (calls(&fs::read_to_string(trace.path()).unwrap()), String::from_utf8(output.stdout).unwrap())
}

/// Why there is no strace that can be used.
pub(super) fn missing() -> Option<String> {
    let tried = Command::new("strace").args(["--output", "/dev/null", "true"]).stderr(Stdio::piped()).output();
    match tried {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("{error}; on Debian: apt-get install strace")),
    }
}

/// The calls of a trace. A call that another thread has interrupted is one call.
pub(super) fn calls(text: &str) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut unfinished: HashMap<&str, (usize, String)> = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        let (process, rest) = line.split_once(' ').unwrap_or_else(|| panic!("no line of a trace: {line}"));
        let rest = rest.trim_start();
        // A signal, or the end of a process.
        if rest.starts_with("+++") || rest.starts_with("---") {
            continue;
        }
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            let earlier = unfinished.insert(process, (number, begun.trim_end().to_owned()));
            assert!(earlier.is_none(), "two calls of one thread: {line}");
        } else if let Some(resumed) = rest.strip_prefix("<... ") {
            let (name, rest) = resumed.split_once(" resumed>").unwrap_or_else(|| panic!("who is resumed? {line}"));
            let (start, begun) = unfinished.remove(process).unwrap_or_else(|| panic!("what is resumed? {line}"));
            assert!(begun.starts_with(name), "{begun} is not {name}");
            calls.push(call(&format!("{begun}{rest}"), start, number));
        } else {
            calls.push(call(rest, number, number));
        }
    }
    // The process ended in those that are left, and in those without a result. They changed nothing: what is in the folder is
    // compared.
    calls.retain(|call: &Call| call.result != "?");
    calls
}

fn call(text: &str, start: usize, end: usize) -> Call {
    let parts = || {
        let (name, rest) = text.split_once('(')?;
        let (arguments, result) = rest.rsplit_once(" = ")?;
        Some((name, arguments.trim_end().strip_suffix(')')?, result))
    };
    let (name, arguments, result) = parts().unwrap_or_else(|| panic!("no call: {text:.200}"));
    Call { name: name.into(), arguments: arguments.into(), result: result.into(), start, end }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("\\x{byte:02x}"))
}

/// The bytes of `\x61\x62`.
pub(super) fn unhex(text: &str) -> Vec<u8> {
    // A reserve is made of long writes of nothing else. A longer piece takes less time in a build that is not optimised.
    let zeros = r"\x00".repeat(1_024);
    let text = text.as_bytes();
    if text.len().is_multiple_of(zeros.len()) && text.chunks(zeros.len()).all(|chunk| chunk == zeros.as_bytes()) {
        return vec![0; text.len() / 4];
    }
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok()).unwrap();
    assert_eq!(text.len() % 4, 0, "no bytes in hexadecimal");
    let byte = |byte: &[u8]| {
        assert_eq!(byte[..2], *b"\\x");
        digit(byte[2]) << 4 | digit(byte[3])
    };
    text.chunks(4).map(byte).collect()
}

/// The bytes of `"\x61\x62"`.
pub(super) fn quoted(argument: &str) -> Vec<u8> {
    let text = argument.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    unhex(text.unwrap_or_else(|| panic!("not a whole string: {argument:.80}")))
}

/// The number and the path of `3<\x2f\x61>`, and whether the file has been removed.
pub(super) fn descriptor(argument: &str) -> Option<(i32, Vec<u8>, bool)> {
    let (number, path) = argument.split_once('<')?;
    let (path, rest) = path.split_once('>')?;
    Some((number.parse().ok()?, unhex(path), rest == "(deleted)"))
}

#[test]
fn a_call_that_others_interrupt_is_one_call() {
    let trace = "12 close(3<\\x2f>)        = 0\n\
                 12 pwrite64(4<\\x2f\\x61>, \"\\x00\\xff\", 2, 8 <unfinished ...>\n\
                 13 fsync(5<\\x2f>) = -1 EIO (Input/output error)\n\
                 13 --- SIGCHLD {si_signo=SIGCHLD} ---\n\
                 12 <... pwrite64 resumed>)      = 2\n\
                 12 +++ exited with 0 +++\n";
    let calls = calls(trace);
    let names: Vec<_> = calls.iter().map(|call| (call.name.as_str(), call.start, call.end)).collect();
    assert_eq!(names, [("close", 0, 0), ("fsync", 2, 2), ("pwrite64", 1, 4)]);
    assert!(calls[1].failed() && !calls[2].failed());
    let arguments = calls[2].arguments();
    assert_eq!(descriptor(arguments[0]), Some((4, b"/a".to_vec(), false)));
    assert_eq!((quoted(arguments[1]), arguments[2], arguments[3]), (vec![0, 255], "2", "8"));
    assert!(calls[2].names(Path::new("/a")) && !calls[1].names(Path::new("/a")));
}
