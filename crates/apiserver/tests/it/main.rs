//! The server as its clients meet it: over real connections, and the program around it.

mod audit;
mod certificates;
mod deadlines;
mod definitions;
mod fresh;
mod fuzz;
mod garbage;
mod heavy;
mod identity;
mod in_process;
mod kubernetes;
mod lists;
mod nesting;
mod program;
mod protobuf;
mod races;
mod server;
mod snapshot;
mod streams;
mod support;
mod tokens;
mod warnings;
mod watch;
mod websocket;
mod work;
mod yaml;
