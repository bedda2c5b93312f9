//! Tests of recordings on full and slow disks.

#[path = "../../../controller/tests/it/log.rs"]
mod log;

use std::io::{self, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use crossbeam_channel::{Receiver, bounded};

use self::log::Log;
use super::Lines;
use crate::line::{Line, Record};

/// A disk with limited space, which blocks writes until the test allows them.
#[derive(Clone)]
struct Disk {
    room: usize,
    held: Receiver<()>,
    file: Arc<Mutex<io::Cursor<Vec<u8>>>>,
}

impl Disk {
    fn of(room: usize, held: Receiver<()>) -> Self {
        Self { room, held, file: Arc::default() }
    }

    /// Returns the complete entries in the file and the last entry's text.
    fn read(&self) -> (Vec<Line>, Option<String>) {
        let file = self.file.lock().unwrap();
        let (mut rest, mut lines) = (file.get_ref().as_slice(), Vec::new());
        while let Some(line) = Line::read(&mut rest).unwrap() {
            match line.record {
                Record::Lost(why) => return (lines, Some(why)),
                _ => lines.push(line),
            }
        }
        (lines, None)
    }
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        while self.held.recv().is_ok() {}
        let mut file = self.file.lock().unwrap();
        let fits = bytes.len().min(self.room - file.position() as usize);
        if fits == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.write(&bytes[..fits])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Disk {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.lock().unwrap().seek(to)
    }
}

fn line(number: u64, body: &Bytes) -> Line {
    Line { at: Duration::from_secs(number), call: 1, record: Record::Item(body.clone().into()) }
}

fn let_go() -> Receiver<()> {
    bounded(0).1
}

#[tokio::test]
async fn full_disk_ends_the_recording_with_one_warning() {
    let body = Bytes::from(vec![b'x'; 100]);
    for room in (0..2_000).step_by(7) {
        let (log, _here) = Log::here();
        let disk = Disk::of(room, let_go());
        let lines = Lines::start(disk.clone(), "full".into(), u64::MAX).unwrap();
        (0..20).for_each(|number| lines.write(|| line(number, &body)));
        let end = lines.end();
        drop(lines);
        assert_eq!(end.await.unwrap_err().kind(), io::ErrorKind::StorageFull);
        log.assert_tells(&["full", "cannot write the recording", "no storage space"]);
        assert_eq!(log.count("which stops here"), 1);
        let (whole, why) = disk.read();
        assert!(whole.len() < 20 && whole.iter().zip(0..).all(|(read, number)| *read == line(number, &body)));
        assert!(why.is_none_or(|why| why == "no storage space"), "{room}");
    }
}

#[tokio::test]
async fn line_beyond_the_limit_is_replaced_by_full() {
    let disk = Disk::of(100, let_go());
    let lines = Lines::start(disk.clone(), "full".into(), u64::MAX).unwrap();
    lines.write(|| line(1, &Bytes::from(vec![b'x'; 1_000])));
    lines.end().await.unwrap_err();
    assert_eq!(disk.read(), (Vec::new(), Some("no storage space".into())));
    lines.write(|| line(2, &Bytes::new()));
    assert!(disk.read().0.is_empty(), "nothing follows it");
}

#[tokio::test]
async fn slow_disk_ends_the_recording_without_blocking() {
    let (log, _here) = Log::here();
    let (hold, held) = bounded(0);
    let disk = Disk::of(usize::MAX, held);
    let lines = Lines::start(disk.clone(), "slow".into(), u64::MAX).unwrap();
    let body = Bytes::from(vec![b'x'; 8 << 20]);
    (0..20).for_each(|number| lines.write(|| line(number, &body)));
    drop(hold);
    assert_eq!(lines.end().await.unwrap_err().to_string(), "the disk is too slow");
    assert_eq!(log.count("which stops here"), 1);
    let (whole, why) = disk.read();
    // The thread may have taken one line from the channel before the disk blocked.
    assert!((7..=8).contains(&whole.len()), "{}", whole.len());
    assert!(whole.iter().zip(0..).all(|(read, number)| *read == line(number, &body)));
    assert_eq!(why.unwrap(), "the disk is too slow");
}
