//! The server as its clients meet it: over real connections, and the program around it.

mod certificates;
mod deadlines;
mod identity;
mod kubernetes;
mod nesting;
mod program;
mod server;
mod support;
mod tokens;
mod watch;
mod websocket;
mod work;
mod yaml;
