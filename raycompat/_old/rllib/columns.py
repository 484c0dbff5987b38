"""`Columns`: names of what is recorded of a step."""


class Columns:
    """Keys of episodes and batches."""

    OBS = "obs"
    INFOS = "infos"
    ACTIONS = "actions"
    REWARDS = "rewards"
    TERMINATEDS = "terminateds"
    TRUNCATEDS = "truncateds"
    NEXT_OBS = "new_obs"
    EPS_ID = "eps_id"
    AGENT_ID = "agent_id"
    MODULE_ID = "module_id"
    STATE_IN = "state_in"
    STATE_OUT = "state_out"
    ACTIONS_FOR_ENV = "actions_for_env"
    ACTION_DIST_INPUTS = "action_dist_inputs"
    ACTION_LOGP = "action_logp"
    VF_PREDS = "vf_preds"
    ADVANTAGES = "advantages"
    VALUE_TARGETS = "value_targets"
    EMBEDDINGS = "embeddings"
    RETURNS_TO_GO = "returns_to_go"
    LOSS_MASK = "loss_mask"
    SEQ_LENS = "seq_lens"
    INTRINSIC_REWARDS = "intrinsic_rewards"


__all__ = ["Columns"]
