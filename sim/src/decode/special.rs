//! Names of special registers (PTX ISA 10).

use super::op::Special;

/// Reads a special register's name.
pub(crate) fn parse(name: &str) -> Option<Special> {
    if let Some((stem, component)) = name.split_once('.') {
        let axis = match component {
            "x" => 0,
            "y" => 1,
            "z" => 2,
            _ => return None,
        };
        return vector(stem, axis);
    }
    Some(match name {
        "%cluster_ctarank" => Special::ClusterCtaRank,
        "%cluster_nctarank" => Special::ClusterNctaRank,
        "%laneid" => Special::LaneId,
        "%warpid" => Special::WarpId,
        "%nwarpid" => Special::NwarpId,
        "%smid" => Special::SmId,
        "%nsmid" => Special::NsmId,
        "%gridid" => Special::GridId,
        "%lanemask_eq" => Special::LanemaskEq,
        "%lanemask_le" => Special::LanemaskLe,
        "%lanemask_lt" => Special::LanemaskLt,
        "%lanemask_ge" => Special::LanemaskGe,
        "%lanemask_gt" => Special::LanemaskGt,
        "%clock" => Special::Clock,
        "%clock64" => Special::Clock64,
        "%globaltimer" => Special::GlobalTimer,
        "%globaltimer_lo" => Special::GlobalTimerLo,
        "%dynamic_smem_size" => Special::DynamicSmemBytes,
        "%total_smem_size" => Special::TotalSmemBytes,
        _ => return None,
    })
}

fn vector(stem: &str, axis: u8) -> Option<Special> {
    Some(match stem {
        "%tid" => Special::Tid(axis),
        "%ntid" => Special::Ntid(axis),
        "%ctaid" => Special::CtaId(axis),
        "%nctaid" => Special::NctaId(axis),
        "%clusterid" => Special::ClusterId(axis),
        "%nclusterid" => Special::NclusterId(axis),
        "%cluster_ctaid" => Special::ClusterCtaId(axis),
        "%cluster_nctaid" => Special::ClusterNctaId(axis),
        _ => return None,
    })
}
