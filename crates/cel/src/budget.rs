//! A shared limit on the work of compiling several expressions.

use std::cell::Cell;

/// A limit on the work of compiling several expressions, for example all expressions in an object.
///
/// Each expression also has its own limit, so a budget only matters if it is shared. The unit is the visit of one
/// subexpression or one step of type inference.
///
/// ```
/// use pintle_cel::{CompileBudget, Environment};
///
/// let budget = CompileBudget::new(20);
/// let environment = Environment::new();
/// assert!(environment.compile_within("1 + 1 == 2", &budget).is_ok());
/// assert!(environment.compile_within("1 + 1 == 2", &budget).is_err());
/// ```
#[derive(Debug)]
pub struct CompileBudget(Cell<u32>);

impl CompileBudget {
    /// Creates a budget of `steps`.
    pub fn new(steps: u32) -> Self {
        Self(Cell::new(steps))
    }

    pub(crate) fn left(&self) -> u32 {
        self.0.get()
    }

    pub(crate) fn spend(&self, steps: u32) {
        self.0.set(self.left().saturating_sub(steps));
    }
}

/// A budget that only the limits of each expression restrict.
impl Default for CompileBudget {
    fn default() -> Self {
        Self::new(u32::MAX)
    }
}
