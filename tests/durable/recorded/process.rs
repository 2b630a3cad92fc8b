//! The system calls of a process, as what they do to a disk.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
};

use super::{
    disk::{Change, Node},
    recording::{Event, Recording, What},
    strace::{Call, descriptor, quoted},
    told::Told,
};

/// Calls that change nothing, on a file of the store. Any other call is one that has to be known.
const READS: &[&str] = &[
    "access",
    "close",
    "fadvise64",
    "flock",
    "fstat",
    "getdents64",
    "lseek",
    "lstat",
    "newfstatat",
    "pread64",
    "read",
    "readlink",
    "readlinkat",
    "stat",
    "statfs",
    "statx",
];

/// Flags of an opening that change nothing, beside `O_CREAT`.
const FLAGS: &[&str] =
    &["O_RDONLY", "O_WRONLY", "O_RDWR", "O_CREAT", "O_EXCL", "O_CLOEXEC", "O_NONBLOCK", "O_DIRECTORY"];

/// A process whose calls are added to a recording.
pub(super) struct Process<'a> {
    root: &'a Path,
    recording: &'a mut Recording,
    descriptors: HashMap<i32, Node>,
    programs: usize,
    /// When the last change of a node ended.
    writes: BTreeMap<Node, usize>,
}

impl<'a> Process<'a> {
    pub(super) fn new(root: &'a Path, recording: &'a mut Recording) -> Self {
        Self { root, recording, descriptors: HashMap::new(), programs: 0, writes: BTreeMap::new() }
    }

    pub(super) fn take(&mut self, call: &Call) {
        let Call { name, .. } = call;
        if name == "execve" && !call.failed() {
            self.programs += 1;
            assert_eq!(self.programs, 1, "descriptors of two processes");
        }
        assert!(!name.starts_with("io_uring") && name != "close_range", "it may write, which is not recorded: {name}");
        let arguments = call.arguments();
        if name == "write" && arguments[0].starts_with("1<") {
            let text = quoted(arguments[1]);
            for told in Told::read(&String::from_utf8_lossy(&text)) {
                self.add(call, What::Told(told));
            }
        } else if call.names(self.root) {
            self.store(call, arguments);
        }
    }

    /// A call on what is in the folder.
    fn store(&mut self, call: &Call, mut arguments: Vec<&str>) {
        // Paths are absolute.
        arguments.retain(|argument| !argument.starts_with("AT_FDCWD"));
        match call.name.trim_end_matches("at").trim_end_matches("at2") {
            // One that fails leaves no file.
            "open" | "mkdir" | "rename" | "unlink" | "rmdir" | "fallocate" if call.failed() => {}
            "open" => self.open(call, &arguments),
            "mkdir" => {
                let (folder, name) = self.place(arguments[0]);
                let node = self.node(true);
                self.change(call, Change::Create { folder, name, node });
            }
            "rename" => {
                let ((folder, from), (other, to)) = (self.place(arguments[0]), self.place(arguments[1]));
                assert_eq!(folder, other, "a rename into another folder");
                let node = self.recording.now.entry(folder, &from).unwrap();
                self.change(call, Change::Rename { folder, from, to, node });
            }
            "unlink" | "rmdir" => {
                let (folder, name) = self.place(arguments[0]);
                self.change(call, Change::Remove { folder, name });
            }
            "pwrite64" => {
                let written: usize = number(&call.result);
                let (file, data) = (self.file(arguments[0]), &quoted(arguments[1])[..written]);
                self.change(call, Change::Write { file, offset: number(arguments[3]), data: data.into() });
            }
            "ftruncate" => {
                succeeded(call);
                let file = self.file(arguments[0]);
                self.change(call, Change::Length { file, length: number(arguments[1]) });
            }
            "fallocate" => {
                let (file, end) = (self.file(arguments[0]), number::<u64>(arguments[2]) + number::<u64>(arguments[3]));
                let is_longer = end > self.recording.now.length(file);
                match arguments[1] {
                    // What is allocated beyond the end is zeros.
                    "0" if is_longer => self.change(call, Change::Length { file, length: end }),
                    "0" | "FALLOC_FL_KEEP_SIZE" => {}
                    kind => panic!("an allocation of another kind: {kind}"),
                }
            }
            "fsync" | "fdatasync" => {
                succeeded(call);
                let node = self.file(arguments[0]);
                assert!(call.name == "fsync" || !node.is_folder, "names may not be data");
                self.add(call, What::Sync(node));
            }
            "fcntl" => assert!(["F_GETFD", "F_SETFD", "F_GETFL"].contains(&arguments[1]), "{call:?}"),
            "close" => {
                self.descriptors.remove(&descriptor(arguments[0]).unwrap().0);
            }
            // The folder, to the test harness.
            "execve" => {}
            _ => assert!(READS.contains(&&*call.name), "a call of which is not known whether it writes: {}", call.name),
        }
    }

    fn open(&mut self, call: &Call, arguments: &[&str]) {
        let flags: Vec<&str> = arguments[1].split('|').collect();
        assert!(flags.iter().all(|flag| FLAGS.contains(flag)), "flags that are not simulated: {flags:?}");
        let (opened, ..) = descriptor(&call.result).unwrap();
        let path = quoted(arguments[0]);
        if self.path(&path).as_os_str().is_empty() {
            self.descriptors.insert(opened, Node::ROOT);
            return;
        }
        let (folder, name) = self.place(arguments[0]);
        let node = self.recording.now.entry(folder, &name).unwrap_or_else(|| {
            assert!(flags.contains(&"O_CREAT"), "{name} should not be there");
            let node = self.node(false);
            self.change(call, Change::Create { folder, name, node });
            node
        });
        self.descriptors.insert(opened, node);
    }

    fn change(&mut self, call: &Call, change: Change) {
        let (node, start, end) = (change.of(), self.moment(call.start), self.moment(call.end));
        // In which order they happened, the trace does not say.
        let earlier = self.writes.insert(node, end);
        assert!(earlier.is_none_or(|earlier| earlier < start), "two changes at once: {}", call.name);
        self.recording.now.apply(&change);
        self.add(call, What::Change(change));
    }

    fn add(&mut self, call: &Call, what: What) {
        let (start, end) = (self.moment(call.start), self.moment(call.end));
        self.recording.events.push(Event { start, end, what });
    }

    fn moment(&self, line: usize) -> usize {
        self.recording.moments + line
    }

    fn node(&mut self, is_folder: bool) -> Node {
        self.recording.nodes += 1;
        Node { number: self.recording.nodes, is_folder }
    }

    /// The path inside the folder.
    fn path(&self, path: &[u8]) -> PathBuf {
        let path = Path::new(std::str::from_utf8(path).unwrap());
        path.strip_prefix(self.root).unwrap_or_else(|_| panic!("{} is elsewhere", path.display())).into()
    }

    /// The folder of a path, and the name in it.
    fn place(&self, argument: &str) -> (Node, String) {
        let path = self.path(&quoted(argument));
        let mut names: Vec<&str> = path.iter().map(|name| name.to_str().unwrap()).collect();
        let last = names.pop().unwrap();
        let folder = names.iter().try_fold(Node::ROOT, |folder, name| self.recording.now.entry(folder, name));
        (folder.unwrap_or_else(|| panic!("no folder of {}", path.display())), last.into())
    }

    /// What a descriptor was opened as. It has the path that this has now.
    fn file(&self, argument: &str) -> Node {
        let (number, path, is_removed) = descriptor(argument).unwrap();
        let node = self.descriptors[&number];
        if !is_removed {
            let path = self.path(&path);
            let named =
                path.iter().try_fold(Node::ROOT, |folder, name| self.recording.now.entry(folder, name.to_str()?));
            assert_eq!(named, Some(node), "{} is another file", path.display());
        }
        node
    }
}

fn number<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap_or_else(|error| panic!("{text} is no number: {error:?}"))
}

fn succeeded(call: &Call) {
    assert_eq!(call.result, "0", "{} failed", call.name);
}

#[cfg(test)]
mod tests {
    use super::{super::strace, *};

    /// What these lines of a trace do in the folder `/f`.
    fn recorded(trace: &str) -> Recording {
        let hex = |text: &str| strace::hex(text.as_bytes());
        let trace = trace.replace("/f/a", &hex("/f/a")).replace("/f/b", &hex("/f/b")).replace("BYTES", &hex("bytes"));
        let mut recording = Recording::default();
        let calls = strace::calls(&trace);
        let mut process = Process::new(Path::new("/f"), &mut recording);
        for call in &calls {
            process.take(call);
        }
        recording
    }

    const CREATE: &str = "1 openat(AT_FDCWD</>, \"/f/a\", O_RDWR|O_CREAT|O_CLOEXEC, 0600) = 3</f/a>\n";

    #[test]
    fn files_are_what_the_calls_say() {
        let write = "1 pwrite64(3</f/a>, \"BYTES\", 5, 4096) = 4\n";
        let rename = "1 rename(\"/f/a\", \"/f/b\") = 0\n1 fdatasync(3</f/b>) = 0\n";
        let failed = "1 unlink(\"/f/a\") = -1 ENOENT (No such file or directory)\n";
        let recording = recorded(&[CREATE, write, rename, failed].concat());
        assert_eq!(recording.now.listing(), [("/b".to_owned(), 4_100)]);
        assert_eq!(recording.events.len(), 4);
    }

    #[test]
    fn an_allocation_beyond_the_end_makes_a_file_longer() {
        let allocations = "1 fallocate(3</f/a>, 0, 0, 4096) = 0\n\
                           1 fallocate(3</f/a>, FALLOC_FL_KEEP_SIZE, 4096, 4096) = 0\n\
                           1 fallocate(3</f/a>, 0, 0, 512) = 0\n";
        let recording = recorded(&[CREATE, allocations].concat());
        assert_eq!(recording.now.listing(), [("/a".to_owned(), 4_096)]);
        assert_eq!(recording.events.len(), 2);
    }

    #[test]
    #[should_panic(expected = "a call of which is not known whether it writes: pwritev2")]
    fn an_unknown_call_on_the_store_fails() {
        recorded(&[CREATE, "1 pwritev2(3</f/a>, [], 0, 0, 0) = 0\n"].concat());
    }

    #[test]
    #[should_panic(expected = "a call of which is not known whether it writes: mmap")]
    fn a_mapping_of_the_store_fails() {
        recorded(&[CREATE, "1 mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, 3</f/a>, 0) = 0x7f\n"].concat());
    }

    #[test]
    #[should_panic(expected = "two changes at once")]
    fn changes_of_one_file_at_once_fail() {
        let write = "1 pwrite64(3</f/a>, \"BYTES\", 5, 0 <unfinished ...>\n";
        let truncate = "2 ftruncate(3</f/a>, 0) = 0\n1 <... pwrite64 resumed>) = 5\n";
        recorded(&[CREATE, write, truncate].concat());
    }
}
