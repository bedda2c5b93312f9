//! The guarantees of the queues, each under its name.

mod blocking;
mod delta_fifo;
mod oracle;
mod support;
