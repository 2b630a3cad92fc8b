//! `consign send`, `peek`, `receive`, `export` and `import`.

mod browse;
mod build;
mod export;
mod import;
mod originals;
mod outbox;
mod peek;
mod receive;
mod send;
pub(crate) mod show;

pub(crate) use self::{
    browse::Listed,
    export::{Export, Lines},
    import::Import,
    outbox::Outbox,
    peek::Peek,
    receive::Receive,
    send::Send,
};
