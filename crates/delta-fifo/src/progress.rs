//! The sync state of a queue.

/// Tracks whether the first list of a queue has been processed, and whether the queue is closed.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    populated: bool,
    /// The number of items of the first list that are queued, or popped but not processed yet.
    initial: usize,
    /// The number of items that are popped but not processed yet.
    in_process: usize,
    closed: bool,
}

impl Progress {
    pub(crate) fn changed(&mut self) {
        self.populated = true;
    }

    /// Records that a list was queued. `items` is the length of the queue after the list was added.
    pub(crate) fn listed(&mut self, items: usize) {
        if !self.populated {
            self.populated = true;
            self.initial = items;
        }
    }

    pub(crate) fn popped(&mut self, items: usize) -> bool {
        self.in_process = items;
        !self.has_synced()
    }

    pub(crate) fn processed(&mut self) {
        self.initial = self.initial.saturating_sub(std::mem::take(&mut self.in_process));
    }

    /// Returns the number of unprocessed items of the first list, or `None` if there are none.
    pub(crate) fn initial(&self) -> Option<usize> {
        Some(self.initial).filter(|initial| *initial > 0)
    }

    /// Records that a list replaced all queued items. If the queue has not synced yet, the new list becomes the first
    /// list.
    pub(crate) fn replaced(&mut self, items: usize) {
        if !self.has_synced() {
            self.populated = true;
            self.initial = items + self.in_process;
        }
    }

    pub(crate) fn dropped(&mut self) {
        self.initial = self.initial.saturating_sub(1);
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.populated && self.initial == 0
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }
}
