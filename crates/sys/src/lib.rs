//! The machine: processes, files and sockets as ringback needs them. The only `unsafe` of the project.

pub mod form;
