//! The bytes of a file.

use std::{collections::BTreeMap, fs::File, io, os::unix::fs::FileExt, path::Path, sync::Arc};

pub(super) const BLOCK: u64 = ZEROS.len() as u64;
/// Compared as a whole, which is quick in a build that is not optimised too.
const ZEROS: [u8; 4_096] = [0; 4_096];

/// Blocks of zeros are left out.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) length: u64,
    blocks: BTreeMap<u64, Arc<[u8; 4_096]>>,
}

impl Content {
    /// Writes what is within the length.
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        let end = self.length.min(offset + data.len() as u64);
        let mut at = offset;
        while at < end {
            let (number, within) = (at / BLOCK, at % BLOCK);
            let length = (BLOCK - within).min(end - at);
            let bytes = &data[size(at - offset)..][..size(length)];
            if *bytes != ZEROS[..bytes.len()] || self.blocks.contains_key(&number) {
                let block = self.blocks.entry(number).or_insert_with(|| Arc::new(ZEROS));
                Arc::make_mut(block)[size(within)..size(within + length)].copy_from_slice(bytes);
            }
            at += length;
        }
    }

    pub(super) fn set_length(&mut self, length: u64) {
        if length < self.length {
            self.blocks.retain(|number, _| number * BLOCK < length);
            if let Some(last) = self.blocks.get_mut(&(length / BLOCK)) {
                Arc::make_mut(last)[size(length % BLOCK)..].fill(0);
            }
        }
        self.length = length;
    }

    pub(super) fn write_to(&self, path: &Path) -> io::Result<()> {
        let file = File::create_new(path)?;
        file.set_len(self.length)?;
        for (number, block) in &self.blocks {
            let length = BLOCK.min(self.length - number * BLOCK);
            file.write_all_at(&block[..size(length)], number * BLOCK)?;
        }
        Ok(())
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        let blocks = |content: &Self| -> Vec<(u64, Arc<_>)> {
            let blocks = content.blocks.iter().filter(|(_, block)| ***block != ZEROS);
            blocks.map(|(number, block)| (*number, Arc::clone(block))).collect()
        };
        self.length == other.length && blocks(self) == blocks(other)
    }
}

pub(super) fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap()
}
