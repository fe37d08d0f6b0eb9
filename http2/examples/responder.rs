//! A small HTTP/2 server over TCP, for tools such as h2spec, h2load and curl:
//! `cargo run -p forebay-http2 --example responder -- 127.0.0.1:8080`. It answers `/N` with N
//! bytes. Each connection has a thread.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use forebay_http2::limits::ConnectionLimits;

#[path = "../tests/support/mod.rs"]
mod support;

use support::Responder;

fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".into());
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || serve(stream));
    }
    Ok(())
}

/// Serves a connection until it ends.
fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let mut responder = Responder::new(ConnectionLimits::default());
    let (mut input, mut space) = (Vec::new(), vec![0; 65_536]);
    loop {
        let pumped = responder.pump();
        stream.write_all(&responder.out)?;
        responder.out.clear();
        if pumped.is_err() || responder.connection.is_drained() {
            return Ok(());
        }
        let count = stream.read(&mut space)?;
        if count == 0 {
            return Ok(());
        }
        input.extend_from_slice(space.get(..count).unwrap_or_default());
        match responder.feed(&input, 0) {
            Ok(consumed) => drop(input.drain(..consumed)),
            Err(error) => {
                println!("{error}");
                return stream.write_all(&responder.out);
            }
        }
    }
}
