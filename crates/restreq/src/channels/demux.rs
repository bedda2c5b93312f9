//! Dispatches messages from the server to their channels. This module does no I/O.

use bytes::{Buf, Bytes};

use super::state::{CLOSE, CloseSignal, Layout, Shared};

pub(super) struct Demux {
    layout: Layout,
    /// The number of preamble bytes that are still missing, for each input and for the error channel.
    preambles: Vec<usize>,
}

impl Demux {
    pub(super) fn new(layout: Layout) -> Self {
        Self { layout, preambles: vec![layout.preamble; layout.inputs.len() + 1] }
    }

    /// Passes a message to its channel. The first byte of the message is the number of the channel. If the buffer of
    /// the channel is full, returns the channel's index and the data.
    pub(super) fn dispatch(&mut self, shared: &Shared, mut data: Bytes) -> Option<(usize, Bytes)> {
        // Servers first send an empty message on each channel.
        if data.is_empty() {
            return None;
        }
        let channel = data.get_u8();
        let index_of = |channel: u8| self.layout.inputs.iter().position(|input| *input == channel);
        if channel == CLOSE && self.layout.close_signal == CloseSignal::Message {
            if let Some(index) = data.first().and_then(|channel| index_of(*channel)) {
                shared.close_input(index);
            }
        } else if channel == self.layout.error {
            self.skip_preamble(self.layout.inputs.len(), &mut data);
            shared.push_error(&data);
        } else if let Some(index) = index_of(channel) {
            self.skip_preamble(index, &mut data);
            return shared.push(index, data).map(|data| (index, data));
        } else {
            tracing::debug!(channel, bytes = data.len(), "ignoring data of a channel that was not requested");
        }
        None
    }

    fn skip_preamble(&mut self, index: usize, data: &mut Bytes) {
        let skipped = self.preambles[index].min(data.len());
        data.advance(skipped);
        self.preambles[index] -= skipped;
    }
}
