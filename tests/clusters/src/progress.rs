//! What the clients have reached so far, read from their histories as they grow.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    ops::Range,
    path::PathBuf,
};

use crate::history::{Event, Queue, What};

/// Follows the histories of the clients.
pub(crate) struct Progress {
    folder: PathBuf,
    /// How far each was read.
    read: HashMap<u32, u64>,
    /// The last success of each kind of work: of a client, or of all.
    successes: HashMap<(u32, &'static str), u64>,
    waiting: HashSet<(Queue, String)>,
    delivered: HashSet<(Queue, String)>,
}

impl Progress {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            read: HashMap::new(),
            successes: HashMap::new(),
            waiting: HashSet::new(),
            delivered: HashSet::new(),
        }
    }

    /// Reads what these clients have written since.
    pub(crate) fn read(&mut self, clients: Range<u32>) -> io::Result<()> {
        for client in clients {
            let Ok(mut file) = File::open(self.folder.join(format!("client-{client}.jsonl"))) else { continue };
            let offset = self.read.entry(client).or_default();
            file.seek(SeekFrom::Start(*offset))?;
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            *offset += whole as u64;
            for line in text[..whole].lines() {
                self.add(serde_json::from_str(line)?);
            }
        }
        Ok(())
    }

    fn add(&mut self, event: Event) {
        let success = match event.what {
            What::Sent { queue, id } => {
                if !self.delivered.contains(&(queue, id.clone())) {
                    self.waiting.insert((queue, id));
                }
                (event.client, "send")
            }
            What::Answered { .. } => (event.client, "call"),
            What::Delivered { queue, id, .. } => {
                self.waiting.remove(&(queue, id.clone()));
                self.delivered.insert((queue, id));
                (u32::MAX, if queue == Queue::Sessions { "session" } else { "receive" })
            }
            _ => return,
        };
        let at = self.successes.entry(success).or_default();
        *at = event.at.max(*at);
    }

    /// The kinds of work that had no success since then.
    pub(crate) fn missing(&self, clients: &[u32], since: u64) -> Vec<String> {
        let of_each = clients.iter().flat_map(|&client| [(client, "send"), (client, "call")]);
        let work = of_each.chain([(u32::MAX, "session"), (u32::MAX, "receive")]);
        work.filter(|key| self.successes.get(key).is_none_or(|&at| at <= since))
            .map(|(client, kind)| if client == u32::MAX { kind.into() } else { format!("{kind} of client {client}") })
            .collect()
    }

    /// How many acknowledged messages have not come.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
