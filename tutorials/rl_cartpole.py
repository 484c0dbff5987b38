"""PPO learns to balance a pole: train, try, save, play from the checkpoint."""

import tempfile

import gymnasium

from raycompat.rllib.algorithms.algorithm import Algorithm
from raycompat.rllib.algorithms.ppo import PPOConfig


def main(num_steps: int = 100_000) -> float:
    """Return the mean return of the last 100 episodes."""
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .training(
            lr=[(0, 0.001), (100_000, 0.0)],
            gamma=0.98,
            lambda_=0.8,
            train_batch_size_per_learner=1024,
            minibatch_size=256,
            num_epochs=10,
            clip_param=0.2,
            use_kl_loss=False,
            vf_clip_param=1e9,
            vf_loss_coeff=0.5,
            model={"fcnet_hiddens": [64, 64]},
        )
        .debugging(seed=0)
    )
    algorithm = config.build_algo()
    while algorithm.num_steps < num_steps:
        result = algorithm.train()
        if result.training_iteration % 10 == 0:
            print(
                f"{algorithm.num_steps:7,} steps: return "
                f"{result.episode_reward_mean:.0f}"
            )

    path = algorithm.save_to_path(tempfile.mkdtemp())
    algorithm.stop()

    restored = Algorithm.from_checkpoint(path)
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=1)
    total, ended = 0.0, False
    while not ended:
        action = restored.compute_single_action(observation, explore=False)
        observation, reward, terminated, truncated, _ = env.step(action)
        total, ended = total + float(reward), terminated or truncated
    print(f"An episode from the checkpoint: {total:.0f}")
    restored.stop()
    return float(result.episode_reward_mean)


if __name__ == "__main__":
    main()
