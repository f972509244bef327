"""What generates or serves: completions between steps, rollout engines, vLLM and SGLang, runs that train nothing."""
