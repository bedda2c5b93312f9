//! How far a queue has come.

/// Whether the first list has been processed, and whether more will come: the same for all queues.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Whether anything has ever come in.
    populated: bool,
    /// How many items of the first list are not processed yet, those in process included.
    initial: usize,
    /// How many items were popped and may still be in process.
    in_process: usize,
    closed: bool,
}

impl Progress {
    /// A change came.
    pub(crate) fn changed(&mut self) {
        self.populated = true;
    }

    /// A list came, of which so many items wait now.
    pub(crate) fn listed(&mut self, items: usize) {
        if !self.populated {
            self.populated = true;
            self.initial = items;
        }
    }

    /// So many items are taken out. Tells whether they belong to the first list.
    pub(crate) fn popped(&mut self, items: usize) -> bool {
        self.in_process = items;
        !self.has_synced()
    }

    /// What was popped has been processed.
    pub(crate) fn processed(&mut self) {
        self.initial = self.initial.saturating_sub(std::mem::take(&mut self.in_process));
    }

    /// How many items of the first list are not processed yet. None: there are no more, or no list has come.
    pub(crate) fn initial(&self) -> Option<usize> {
        Some(self.initial).filter(|initial| *initial > 0)
    }

    /// A list took the place of all that waited. Unless one has been processed, it is the first.
    pub(crate) fn replaced(&mut self, items: usize) {
        if !self.has_synced() {
            self.populated = true;
            self.initial = items + self.in_process;
        }
    }

    /// An item of the first list will not be popped any more.
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
