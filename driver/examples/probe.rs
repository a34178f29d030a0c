//! Prints what was found on this machine, as JSON: `cargo run -p warpwright-driver --example probe`.

fn main() -> Result<(), serde_json::Error> {
    println!("{}", serde_json::to_string_pretty(&warpwright_driver::probe())?);
    Ok(())
}
