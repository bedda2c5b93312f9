//! Tests of operators against an embedded API server.

mod apply;
mod context;
mod install;
mod lifecycle;
mod serve;
mod support;
