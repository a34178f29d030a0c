//! Assembles a PTX file and prints what ptxas said and what the machine code holds.
//!
//! `cargo run -p warpwright-tools --example sass_report -- kernel.ptx sm_90a`

use std::error::Error;
use std::time::Duration;

use tools::{AssembleRequest, ResolveOptions, ToolSet};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(arch)) = (args.next(), args.next()) else {
        return Err("usage: sass_report FILE.ptx ARCH [PTXAS-OPTION...]".into());
    };
    let options: Vec<String> = args.collect();
    let ptx = std::fs::read_to_string(path)?;
    let tools = ToolSet::resolve(&ResolveOptions::default())?;
    let request = AssembleRequest {
        extra_options: &options,
        ..AssembleRequest::new(&ptx, &arch)
    };
    let assembled = tools.assemble(&request)?;
    for diagnostic in &assembled.diagnostics {
        println!("{diagnostic}");
    }
    for report in tools.disassemble(&assembled.cubin, Duration::from_secs(120))?.reports() {
        println!("{report}");
    }
    Ok(())
}
