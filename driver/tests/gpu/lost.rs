//! Faults and hangs: they end a process's use of the device, so they happen in a child, which is this same
//! test binary with one of the `child_` tests, which do nothing unless a parent asks for them.

use super::{add_and_check, buffer_of, gpu, kernel};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use warpwright_driver::{DeviceBuffer, DriverError, Event, Health, KernelArg, LaunchSpec};

const CHILD: &str = "WARPWRIGHT_DRIVER_TEST_CHILD";

fn child(name: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The child's lines up to `last`, at most a minute; the child is killed in any case.
fn lines_until(mut child: Child, last: &str) -> Vec<String> {
    let out = BufReader::new(child.stdout.take().unwrap());
    let (send, receive) = channel();
    std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
    let end = Instant::now() + Duration::from_secs(60);
    let mut lines = Vec::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match receive.recv_timeout(left) {
            Ok(line) => {
                lines.push(line);
                if lines.last().is_some_and(|l| l.contains(last)) {
                    break;
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    // SIGKILL: the only thing that ends a process with a hung kernel.
    child.kill().unwrap();
    child.wait().unwrap();
    lines
}

#[test]
fn a_fault_is_sticky_and_reported() {
    if gpu().is_none() {
        return;
    }
    let lines = lines_until(child("lost::child_faults"), "CHILD END");
    let wanted = [
        "CHILD first Sticky",
        "CHILD health true",
        "CHILD later Sticky",
        "CHILD END",
    ];
    for text in wanted {
        assert!(lines.iter().any(|l| l.contains(text)), "{text}: {lines:#?}");
    }
}

#[test]
fn child_faults() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let Some((context, stream)) = gpu() else {
        return;
    };
    let poke = kernel(&context, "poke");
    let nowhere = [KernelArg::DevicePtr(0x10)];
    poke.launch_with(&stream, &LaunchSpec::linear(1, 1), &nowhere).unwrap();
    let first = stream.synchronize().unwrap_err();
    println!("CHILD first {:?} {first}", first.class());
    println!("CHILD health {}", matches!(context.health(), Health::Sticky(_)));
    let later = DeviceBuffer::alloc(&context, 16).unwrap_err();
    println!("CHILD later {:?} {later}", later.class());
    println!("CHILD END");
}

#[test]
fn a_hang_is_reported_at_its_deadline() {
    if gpu().is_none() {
        return;
    }
    let start = Instant::now();
    let lines = lines_until(child("lost::child_hangs"), "CHILD END");
    let wanted = [
        "CHILD event Hang",
        "CHILD stream Hang",
        "CHILD read Hang",
        "CHILD health Hung",
        "CHILD END",
    ];
    for text in wanted {
        assert!(lines.iter().any(|l| l.contains(text)), "{text}: {lines:#?}");
    }
    println!("child killed after {:?}", start.elapsed());
    // The device is free again for others.
    let (context, stream) = gpu().unwrap();
    add_and_check(&context, &stream, &kernel(&context, "vector_add"));
}

#[test]
fn child_hangs() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let Some((context, stream)) = gpu() else {
        return;
    };
    let flag = buffer_of(&context, &stream, &[0; 4]);
    let done = Event::new(&context).unwrap();
    let spin = kernel(&context, "spin");
    let args = [KernelArg::DevicePtr(flag.address())];
    spin.launch_with(&stream, &LaunchSpec::linear(1, 1), &args).unwrap();
    done.record(&stream).unwrap();
    let limit = Duration::from_millis(200);
    let start = Instant::now();
    let class = |result: Result<(), DriverError>| result.unwrap_err().class();
    println!("CHILD event {:?}", class(done.wait_deadline(limit)));
    assert!(start.elapsed() >= limit && start.elapsed() < Duration::from_secs(5));
    println!("CHILD stream {:?}", class(stream.synchronize_deadline(limit)));
    context.set_deadline(limit);
    println!("CHILD read {:?}", class(flag.read(&stream, 0, &mut [0; 4])));
    println!("CHILD health {:?}", context.health());
    // Dropping everything leaks instead of waiting.
    drop((spin, done, flag, stream, context));
    println!("CHILD END");
    loop {
        std::thread::park();
    }
}
