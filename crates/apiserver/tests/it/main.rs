//! The server as its clients meet it: over real connections, and the program around it.

mod certificates;
mod deadlines;
mod definitions;
mod fuzz;
mod identity;
mod kubernetes;
mod lists;
mod nesting;
mod program;
mod races;
mod server;
mod streams;
mod support;
mod tokens;
mod warnings;
mod watch;
mod websocket;
mod work;
mod yaml;
